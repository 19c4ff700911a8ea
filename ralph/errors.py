"""The one error that users can cause."""


class RalphError(Exception):
    """What is wrong, where, and the next move; `exit_code` is what the shell gets (see the README's table)."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code

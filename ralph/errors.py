"""The error for everything that users can cause."""

import difflib
from collections.abc import Iterable, Mapping


class RalphError(Exception):
    """What is wrong, and where; `fix` is the next move, `exit_code` what the shell gets (docs/exit-codes.md).

    One that is `for_people` is printed only on a terminal, so that cron does not mail it again and again.
    """

    def __init__(self, what: str, exit_code: int = 2, *, fix: str = "", for_people: bool = False):
        self.message = f"{what}; {fix}" if fix else what
        """The text for the user: one line for each problem, with its remedy."""
        super().__init__(self.message)
        self.what, self.fix, self.exit_code, self.for_people = what, fix, exit_code, for_people
        self.problems = [self]
        """All problems, if several were found at once; else this one."""

    @classmethod
    def of(cls, problems: Iterable["RalphError"]) -> "RalphError":
        """Combines several into one error, each problem once; the first one decides the exit code."""
        each = {one.message: one for problem in problems for one in problem.problems}
        problem, *_ = each.values()
        whole = cls("\n".join(each), problem.exit_code, for_people=problem.for_people)
        whole.problems = [*each.values()]
        return whole


def did_you_mean(word: str, known: Mapping[str, str]) -> str:
    """Suggests what to write in place of a mistyped word, if a known one is similar; else ""."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {known[near[0]]}?" if near else ""

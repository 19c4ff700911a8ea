"""`python -m ralph` and the `ralph` command."""

from ralph.cli import main

if __name__ == "__main__":
    main()

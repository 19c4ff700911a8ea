"""The problems: each is a small shell program in five to eight steps, with a solution and hidden checks.

The visible check of a step is what a plan would contain. Some pass before anything is built, as people's checks often
do. The hidden check, which no agent knows, says whether the step is done.
"""

from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One task of a plan, and the checks that say whether it is done."""

    id: str
    text: str
    line: str
    """What the solution adds to the program, or to the README if it begins with `#`."""
    visible: str
    """The `verify:` line of its task."""
    hidden: str
    """A shell command that succeeds if the step is done."""


class Problem(NamedTuple):
    """A program that is one `case`; each step adds a line to it."""

    name: str
    steps: tuple[Step, ...]

    @property
    def program(self) -> str:
        """The name of its file."""
        return f"{self.name}.sh"


def _case(program: str, word: str, does: str, told: str, *examples: tuple[str, str]) -> Step:
    """Returns a step that adds a word. The first example is its visible check, all examples are the hidden one."""
    checks = [f"test \"$(sh {program}.sh {word} {given})\" = '{answer}'" for given, answer in examples]
    visible = f"Run `{checks[0]}` - exits with code 0"
    return Step(word, f"`{program}.sh {word}` {told}", f"{word}) {does} ;;", visible, " && ".join(checks))


def _readme(name: str, words: str, visible: str) -> Step:
    """Returns a step that documents something; its visible check is one that people write."""
    return Step(name, f"The README says: {words}", f"# {words}", visible, f"grep -qF '{words}' README")


PROBLEMS = (
    Problem(
        "calc",
        (
            _case("calc", "add", "echo $(($2 + $3))", "adds two numbers", ("2 3", "5"), ("-4 1", "-3")),
            _case("calc", "sub", "echo $(($2 - $3))", "subtracts", ("9 4", "5"), ("1 4", "-3")),
            _case("calc", "mul", "echo $(($2 * $3))", "multiplies", ("2 3", "6"), ("-4 2", "-8")),
            _case("calc", "neg", "echo $((0 - $2))", "negates", ("7", "-7"), ("0", "0")),
            _readme("usage", "calc.sh WORD NUMBERS", "File `README` exists"),
        ),
    ),
    Problem(
        "text",
        (
            _case("text", "upper", 'echo "$2" | tr a-z A-Z', "shouts", ("abc", "ABC"), ("aB1", "AB1")),
            _case("text", "lower", 'echo "$2" | tr A-Z a-z', "whispers", ("ABC", "abc"), ("aB1", "ab1")),
            _case("text", "twice", 'echo "$2$2"', "says it twice", ("ab", "abab"), ("x", "xx")),
            _case("text", "first", 'echo "$2" | cut -c1', "gives the first letter", ("abc", "a"), ("zy", "z")),
            _case("text", "size", 'printf %s "$2" | wc -c', "counts letters", ("abc", "3"), ("abcde", "5")),
            _case(
                "text", "hello", 'echo "Hello, ${2:-world}!"', "greets", ("Ada", "Hello, Ada!"), ("", "Hello, world!")
            ),
            _readme("guide", "text.sh hello NAME greets", "Run `sh -n text.sh || true` - exits with code 0"),
        ),
    ),
    Problem(
        "units",
        (
            _case("units", "km", 'echo "$(($2 * 1000)) m"', "turns km into m", ("2", "2000 m"), ("5", "5000 m")),
            _case("units", "min", 'echo "$(($2 * 60)) s"', "turns minutes into s", ("2", "120 s"), ("3", "180 s")),
            _case("units", "hour", 'echo "$(($2 * 3600)) s"', "turns hours into s", ("1", "3600 s"), ("2", "7200 s")),
            _case("units", "dozen", "echo $(($2 * 12))", "counts dozens", ("2", "24"), ("3", "36")),
            _case("units", "kb", 'echo "$(($2 * 1000)) B"', "turns kB into bytes", ("2", "2000 B"), ("7", "7000 B")),
            _readme(
                "table", "units.sh km 2 prints 2000 m", "Run `python3 -m unittest -k nothing_such` - exits with code 0"
            ),
        ),
    ),
    Problem(
        "words",
        (
            _readme("title", "words.sh: little words", "File `README` contains `words`"),
            _case("words", "count", "echo $(($# - 1))", "counts words", ("a b c", "3"), ("a", "1")),
            _case("words", "last", 'eval "echo \\"\\${$#}\\""', "gives the last word", ("a b c", "c"), ("x y", "y")),
            _case("words", "join", 'shift; (IFS=-; echo "$*")', "joins by dashes", ("a b", "a-b"), ("a b c", "a-b-c")),
            _case("words", "second", 'echo "$3"', "gives the second word", ("a b c", "b"), ("x y", "y")),
            _case("words", "both", 'echo "$2 and $3"', "says both", ("a b", "a and b"), ("x y", "x and y")),
        ),
    ),
    Problem(
        "dates",
        (
            _case(
                "dates",
                "leap",
                "[ $(($2 % 4)) = 0 ] && echo yes || echo no",
                "knows leap years",
                ("2024", "yes"),
                ("2023", "no"),
            ),
            _case("dates", "week", "echo $(($2 * 7))", "counts days of weeks", ("2", "14"), ("3", "21")),
            _case("dates", "day", "echo $(($2 * 24))", "counts hours of days", ("2", "48"), ("3", "72")),
            _case("dates", "year", "echo $(($2 * 12))", "counts months of years", ("2", "24"), ("3", "36")),
            _case("dates", "next", "echo $(($2 + 1))", "gives the next year", ("2024", "2025"), ("1999", "2000")),
            _case("dates", "past", "echo $(($2 - 1))", "gives the year before", ("2024", "2023"), ("2000", "1999")),
            _readme("notes", "dates.sh leap YEAR", "File `README` exists"),
            _readme("limits", "years are whole numbers", "Run `true` - exits with code 0"),
        ),
    ),
)


def solve(problem: Problem, step: Step, here: Path, *, forgets: str = "") -> None:
    """Does the step and keeps the earlier ones, except the step with the id `forgets`."""
    if step.line.startswith("# "):
        with (here / "README").open("a") as file:
            file.write(step.line.removeprefix("# ") + "\n")
        return
    path = here / problem.program
    there = path.read_text() if path.exists() else ""
    lines = [one.line for one in problem.steps if one.line in there or one is step]
    lines = [line for line in lines if not line.startswith(f"{forgets})") or line == step.line]
    path.write_text("case $1 in\n" + "\n".join(lines) + "\nesac\n")

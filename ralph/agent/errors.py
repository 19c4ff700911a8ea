"""When a usage limit ends, read from the words it comes in; and which other words of an agent's error mean what.

For text that is known to be the agent's own error. Still each pattern is anchored, because a model may talk about such
messages. The patterns are strings: the first error compiles them, and an iteration without one never pays.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

_FURTHEST_S = 8 * 86_400
"""The longest limit is one of seven days; what lies beyond is no reset time."""
_JUST_PASSED_S = 2 * 3600
"""The agent prints past resets too, without a date: taken for tomorrow's, a day would be waited for nothing."""

_JOINT = r" ?[·∙•|\u2013\u2014-] ?"
_END = rf"(?=\.|{_JOINT}| *$)"
_MOMENT = (
    r"(?:(?P<month>[a-z]{3})[a-z]* (?P<day>\d{1,2})(?:, (?P<year>\d{4}))?(?:,| at) )?"
    r"(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))? ?(?P<half>[ap])m(?: \((?P<zone>[^()]+)\))?"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_LIMIT = (
    r"(?:You've (?:hit|reached) your (?:[\w.'-]+ ){0,4}limit"
    r"|You're out of (?:extra usage|usage credits)"
    r"|(?:Claude (?:AI |Code )?usage|usage|\d+-hour|session|daily|weekly|(?:Opus|Sonnet|Haiku|Fable)(?: [\d.]+)?)"
    r"(?: weekly)? limit reached)"
    rf"(?:(?:{_JOINT}resets|\. Your limit will reset)(?: at)? {_MOMENT}|\|\d{{9,11}})?"
    rf"(?:(?:\. |{_JOINT})(?:run )?/[a-z-]+ .{{1,120}})?\.?$"
)
_PERSON = (
    r"(?:API Error: )?(?:\d{3} )?"
    r"(?:Credit balance (?:is )?too low"
    r"|You've hit your (?:org's )?monthly spend limit"
    rf"|You've hit your org's monthly usage limit(?!{_JOINT}resets)"
    rf"|You've hit your (?:[\w']+ ){{0,4}}limit{_JOINT}(?:contact|ask) your admin[^.]*"
    r"|You're out of usage credits(?=\.)"  # goes on with "/model to switch models": this one is for credits only
    r"|You have reached your specified [\w -]*usage limits"
    r"|Your org(?:anization)? is out of usage(?: credits)?"
    r"|Your organization's usage credit cap is reached.*"
    r"|Your usage allocation has been disabled(?: by your admin)?"
    r"|Your group's usage limit is set to \$0"
    r"|Your seat type doesn't include (?:extra )?usage(?: credits)?"
    r"|This service is disabled for your org"
    r"|(?:Usage credits(?: are)?|Extra usage is) required for (?:1M|long) context(?: requests)?"
    rf"|[\w.]+(?: [\d.]+)? requires usage credits){_END}"
)
_PASSING = (
    r"(?:API Error: (?:Unable to connect(?! to API: )"  # what follows that colon is a certificate, which does not pass
    r"|Connection to the API was lost|The socket connection was closed|Repeated 529 Overloaded"
    r"|Server is temporarily limiting requests)"
    r"|API Error:? \(?(?:408|5\d\d)\b"
    rf"|API Error: (?:Overloaded|Connection error|Request timed out|The operation timed out){_END}"
    r"|(?:Error: )?Request timed out\.?$"
    r"|\w+ is experiencing high load, please use /model to switch to \w+\.?$"
    r"|(?:API |Type)?Error: (?:No messages returned(?: from query)?|fetch failed|socket hang up"
    r"|(?:request to \S+ failed, reason: )?(?:getaddrinfo |connect |read |write )?"
    r"(?:E(?:NOTFOUND|AI_AGAIN|TIMEDOUT|PIPE)|ECONN(?:RESET|REFUSED|ABORTED)|E(?:NET|HOST)(?:UNREACH|DOWN))"
    rf"(?: \(?[\w.:\[\]-]+\)?)?){_END})"
)


def is_limit(text: str) -> bool:
    """Whether this is a message that a usage limit is reached, and nothing else; one that needs a person is none."""
    line = _plain(text)
    return len(line.splitlines()) == 1 and _matches(_LIMIT, line) and not _matches(_PERSON, line)


def needs_person(text: str) -> bool:
    """Whether it is a matter of money or of an admin's leave, which no waiting mends, limit or not."""
    return _matches(_PERSON, _plain(text))


def is_passing(text: str) -> bool:
    """Whether it is trouble of the network or of the server, which passes by itself."""
    return _matches(_PASSING, _plain(text))


def resets_at(text: str, now: float) -> int | None:
    """When the text says that the limit ends, in seconds since 1970, which is a whole minute unless it is a number.

    None when it does not say so, or names an unknown zone, a time past, or one more than 8 days away. Without a zone it
    is the machine's; without a date it is the next such time, but one that passed in the last two hours is past.
    """
    line = _plain(text)
    if stamp := re.search(r"\|(\d{9,11})$", line):
        times = [float(stamp[1])]
    elif words := re.search(rf"(?im)\bresets?(?: at)? {_MOMENT}{_END}", line):
        times = list(_times(words, now))
    else:
        return None
    ahead = min((at for at in times if at > now), default=float("inf"))
    passed = any(now - _JUST_PASSED_S < at <= now for at in times)
    return int(ahead) if ahead - now <= (_JUST_PASSED_S if passed else _FURTHEST_S) else None


def _plain(text: str) -> str:
    """The text with plain apostrophes and blanks."""
    return text.strip().translate({0x2019: "'", 0xA0: " ", 0x202F: " "})


def _matches(pattern: str, line: str) -> bool:
    return re.match(f"(?im){pattern}", line) is not None


def _times(words: re.Match[str], now: float) -> "Iterator[float]":
    """All that these words can mean around now; nothing when they mean no time at all."""
    import datetime as dt  # noqa: PLC0415 - only a reached limit gets here

    try:
        zone = _zone(words["zone"])
    except (ValueError, KeyError, OSError):  # what zoneinfo raises of unknown, forbidden and half names
        return
    hour = int(words["hour"]) % 12 + 12 * (words["half"] in "pP")
    clock = dt.time(hour, int(words["minute"] or 0), tzinfo=zone)
    for day in _days(words, dt.datetime.fromtimestamp(now, zone).date()):
        moment = dt.datetime.combine(day, clock)
        first, second = moment.timestamp(), moment.replace(fold=1).timestamp()
        yield first
        if second > first:  # the hour that clocks go through twice; of the one they leave out the first is the later
            yield second


def _zone(name: str | None) -> "dt.tzinfo | None":
    """None is the machine's own."""
    import datetime as dt  # noqa: PLC0415 - only a reached limit gets here
    import zoneinfo  # noqa: PLC0415 - same

    if name in ("UTC", "Etc/UTC", "GMT"):  # also on a machine without a time zone database, where it is the likely one
        return dt.UTC
    return zoneinfo.ZoneInfo(name) if name else None


def _days(words: re.Match[str], today: "dt.date") -> "Iterator[dt.date]":
    """The days that may be meant: this one and its neighbours, or the named one of this year and of the next."""
    import datetime as dt  # noqa: PLC0415 - only a reached limit gets here

    month = (words["month"] or "").lower()
    if not month:
        yield from (today + dt.timedelta(days=n) for n in (-1, 0, 1))
    elif month in _MONTHS:
        for year in [int(words["year"])] if words["year"] else (today.year, today.year + 1):
            try:
                yield dt.date(year, _MONTHS.index(month) + 1, int(words["day"]))
            except ValueError:  # no year has it, or not this one
                continue

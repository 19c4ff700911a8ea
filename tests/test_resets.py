"""What the words of a reached limit mean, and until when: each message known, and many that only look like one."""

import datetime as dt
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ralph_driver import CHECKOUT

from ralph.agent import errors

thorough = settings(max_examples=80, deadline=None)
DAY_S = 86_400


def at(moment: str, zone: str = "UTC") -> float:
    """`2026-11-20 10:00`, on a clock of that zone, as seconds since 1970."""
    return dt.datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone)).timestamp()


NOW = at("2026-11-20 10:00")
LIMITS = [
    "You've hit your limit",
    "You've hit your limit · resets 5pm (Europe/Vilnius)",
    "You've hit your session limit · resets 10:10pm (Europe/Madrid)",
    "You've hit your session limit · resets 10:24am (UTC)",
    "You\u2019ve hit your session limit ∙ resets 10:24am (UTC)",
    "You've hit your session limit - resets 10:24\u202fAM (UTC).",
    "You've hit your weekly limit · resets Aug 3, 7am (Europe/Zurich)",
    "You've hit your weekly limit · resets Nov 23, 9:56am (UTC)",
    "You've hit your weekly limit · resets Jan 2, 2027, 9:56am (UTC)",
    "You've hit your Opus limit",
    "You've hit your Sonnet limit · resets 9pm",
    "You've hit your Fable 5 limit · resets 9pm",
    "You've hit your usage limit · resets 9pm",
    "You've hit your org's monthly usage limit · resets Nov 25, 1am (UTC)",
    "You've hit your session limit · resets 3pm (UTC) · /upgrade to increase your usage limit.",
    "You've reached your Fable 5 limit.",
    "You've reached your Fable 5 limit. Run /usage-credits to continue or switch models with /model.",
    "You've reached your Fable 5 limit. /model to switch models.",
    "You're out of extra usage · resets 9pm",
    "You're out of usage credits · resets 9pm (UTC)",
    "5-hour limit reached · resets 3pm (Europe/Stockholm)",
    "5-hour limit reached ∙ resets 3pm",
    "Weekly limit reached · resets Aug 3, 7am",
    "Opus weekly limit reached ∙ resets Aug 3 at 7am",
    "Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).",
    "Claude AI usage limit reached|1784770200",
    "  You've hit your limit\n",
]
NEED_A_PERSON = [
    "Credit balance is too low",
    "Credit balance too low · Add funds: https://platform.claude.com/settings/billing",
    "API Error: 400 Credit balance is too low",
    "You've hit your org's monthly spend limit · ask your admin to raise it at claude.ai/settings/usage",
    "You've hit your org's monthly spend limit · run /usage-credits to ask your admin for a higher limit",
    "You've hit your monthly spend limit · raise it at claude.ai/settings/usage",
    "You\u2019ve hit your monthly spend limit. /model to switch models.",
    "You've hit your org's monthly usage limit",
    "You've hit your usage limit · contact your admin to increase it",
    "You've hit your limit · ask your admin to increase it",
    "Your usage allocation has been disabled by your admin",
    "Your usage allocation has been disabled by your admin · run /usage-credits to ask your admin for a higher limit",
    "Your group's usage limit is set to $0 · run /usage-credits to ask your admin for a higher limit",
    "Your org is out of usage · add funds to continue",
    "Your org is out of usage · contact your admin",
    "Your organization is out of usage credits. Contact your admin to add more.",
    "Your seat type doesn't include usage",
    "Your seat type doesn\u2019t include usage credits",
    "This service is disabled for your org",
    "API Error: Usage credits required for 1M context · turn on usage credits at claude.ai/settings/usage",
    "API Error: 429 Extra usage is required for long context requests.",
    "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01.",
    "Fable 5 requires usage credits",
    "Fable 5 requires usage credits. Run /usage-credits to continue or switch models with /model.",
    "You're out of usage credits. /model to switch models.",
]
PASSING = [
    "API Error: Unable to connect to API (ConnectionRefused)",
    "API Error: Unable to connect to API (ECONNRESET)",
    "API Error: Unable to connect to API. Check your internet connection",
    "API Error: Connection error.",
    "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again.",
    "API Error: The socket connection was closed unexpectedly. For more information, pass `verbose: true`",
    "API Error: The operation timed out.",
    "API Error: Request timed out. Check your internet connection and proxy settings",
    "Request timed out",
    "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary.",
    "API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a moment.",
    "API Error: 502 <html>\n<head><title>502 Bad Gateway</title></head>",
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    'API Error (529 {"type":"error"}) · Retrying in 1 seconds',
    "API Error: Overloaded",
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
    "Opus is experiencing high load, please use /model to switch to Sonnet",
    "Error: No messages returned",
    "Error: No messages returned from query",
    "API Error: fetch failed",
    "TypeError: fetch failed",
    "Error: socket hang up",
    "Error: getaddrinfo ENOTFOUND api.anthropic.com",
    "API Error: getaddrinfo EAI_AGAIN api.anthropic.com:443",
    "Error: connect ETIMEDOUT 160.79.104.10:443",
    "Error: read ECONNRESET",
    "Error: request to https://api.anthropic.com/v1/messages failed, reason: connect ECONNREFUSED 127.0.0.1:1",
]
OTHERS = [
    "",
    "All done.",
    "I've hit your session limit · resets 3pm",
    "You've hit your session limit and should wait.",
    "The run stopped with: You've hit your session limit · resets 3pm (UTC)",
    "You've hit your session limit · resets 3pm (UTC). I will go on with the tests then.",
    "You've hit your session limit · resets 3pm (UTC)\nI will go on then.",
    "I stopped.\nYou've hit your session limit · resets 3pm (UTC)",
    "You've hit your session limit\u2028resets 3pm",
    "- You've hit your session limit · resets 3pm (UTC)",
    "> You've hit your session limit · resets 3pm (UTC)",
    '"You\'ve hit your session limit · resets 3pm (UTC)"',
    "`You've hit your session limit · resets 3pm (UTC)`",
    "**You've hit your limit**",
    "You've hit your session limit · resets when you pay",
    "You've used 93% of your session limit · resets 3pm (UTC)",
    "You're now using usage credits · Your session limit resets 3pm (UTC)",
    "You're close to your session limit",
    "Approaching weekly limit · resets 3pm",
    "The file size limit reached",
    "Memory limit reached",
    "The text 5-hour limit reached · resets 3pm is matched now.",
    "Claude AI usage limit reached|soon",
    "The account's credit balance is too low",
    "Credit balance is too low for the test in test_credit.py to pass",
    "Your org is out of usage examples",
    "This service is disabled for your organization chart",
    "The test fails with API Error: The operation timed out.",
    "API Error: 404 Not found",
    "API Error: Unable to connect to API: SSL certificate has expired",
    "API Error: The operation timed out in the test that I wrote",
    "API Error: Claude's response exceeded the 64000 output token maximum.",
    "Request timed out because the server was slow",
    "Error: No messages returned is what people see",
    "Error: ENOTFOUND is thrown when the host is unknown",
    "Error: the build failed with ETIMEDOUT",
    "fetch failed",
    "socket hang up",
    "Invalid API key · Fix external API key",
    "API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit",
]


@pytest.mark.parametrize(
    ("text", "meant"),
    [(text, "limit") for text in LIMITS]
    + [(text, "person") for text in NEED_A_PERSON]
    + [(text, "passing") for text in PASSING]
    + [(text, "") for text in OTHERS],
)
def test_a_text_means_one_thing_at_most(text: str, meant: str) -> None:
    meanings = {"limit": errors.is_limit, "person": errors.needs_person, "passing": errors.is_passing}
    assert [name for name, means in meanings.items() if means(text)] == [meant] * bool(meant)


@pytest.mark.parametrize(
    ("text", "now", "until"),
    [
        pytest.param("resets 12pm (UTC)", NOW, at("2026-11-20 12:00"), id="noon is 12pm"),
        pytest.param("resets 12am (UTC)", NOW, at("2026-11-21 00:00"), id="midnight is 12am"),
        pytest.param("resets 5:56am (UTC)", NOW, at("2026-11-21 05:56"), id="that passed this morning is tomorrow's"),
        pytest.param("resets 12:05am (UTC)", at("2026-11-20 23:58"), at("2026-11-21 00:05"), id="over midnight"),
        pytest.param("resets 10:01am (UTC)", NOW, NOW + 60, id="in a minute"),
        pytest.param("resets 8am (UTC)", NOW, at("2026-11-21 08:00"), id="two hours ago is no longer just passed"),
        pytest.param("resets 8:01am (UTC)", NOW, None, id="just passed"),
        pytest.param("resets 10am (UTC)", NOW, None, id="this very moment"),
        pytest.param("resets 11:30pm (UTC)", at("2026-11-20 00:30"), None, id="just passed, yesterday"),
        pytest.param(
            "resets 10:10pm (Europe/Madrid)", NOW, at("2026-11-20 22:10", "Europe/Madrid"), id="on a clock elsewhere"
        ),
        pytest.param(
            "resets 3am (Pacific/Kiritimati)",
            NOW,
            at("2026-11-21 03:00", "Pacific/Kiritimati"),
            id="where it is already tomorrow",
        ),
        pytest.param(
            "resets 8pm (Pacific/Pago_Pago)",
            at("2026-11-20 05:00"),
            at("2026-11-19 20:00", "Pacific/Pago_Pago"),
            id="where it is still yesterday",
        ),
        pytest.param("Your limit will reset at 7pm (Asia/Tokyo).", at("2026-11-20 06:00"), NOW, id="in a sentence"),
        pytest.param("limit · resets 3pm (UTC) · /upgrade", NOW, at("2026-11-20 15:00"), id="with advice behind it"),
        pytest.param("limit · resets 3\u202fPM (UTC)", NOW, at("2026-11-20 15:00"), id="with a narrow blank"),
        pytest.param("resets 3pm (UTC)\nTry again.", NOW, at("2026-11-20 15:00"), id="with a line behind it"),
        pytest.param("resets Nov 23, 9:56am (UTC)", NOW, at("2026-11-23 09:56"), id="with a date"),
        pytest.param("resets November 23 at 9am (UTC)", NOW, at("2026-11-23 09:00"), id="with the month in full"),
        pytest.param("resets Nov 28, 10am (UTC)", NOW, NOW + 8 * DAY_S, id="in eight days"),
        pytest.param("resets Nov 28, 10:01am (UTC)", NOW, None, id="in more than eight days"),
        pytest.param("resets Nov 20, 9:59am (UTC)", NOW, None, id="a date that passed is not next year's"),
        pytest.param("resets Jan 2, 7am (UTC)", at("2026-12-30 10:00"), at("2027-01-02 07:00"), id="over New Year"),
        pytest.param(
            "resets Jan 2, 2027, 7am (UTC)", at("2026-12-30 10:00"), at("2027-01-02 07:00"), id="with the year"
        ),
        pytest.param("resets Dec 31, 7am (UTC)", at("2027-01-02 10:00"), None, id="last year's"),
        pytest.param("resets Nov 23, 2027, 9am (UTC)", NOW, None, id="a year that is not meant"),
        pytest.param(
            "resets Jan 1, 1am (Pacific/Auckland)",
            at("2026-12-31 10:00"),
            at("2027-01-01 01:00", "Pacific/Auckland"),
            id="where the year is already over",
        ),
        pytest.param("resets Feb 29, 7am (UTC)", at("2028-02-27 10:00"), at("2028-02-29 07:00"), id="a leap day"),
        pytest.param("resets Feb 29, 7am (UTC)", at("2027-02-27 10:00"), None, id="a leap day in another year"),
        pytest.param("resets Nov 31, 7am (UTC)", NOW, None, id="a day that no year has"),
        pytest.param("resets Foo 23, 7am (UTC)", NOW, None, id="a month that no year has"),
        pytest.param("Claude AI usage limit reached|1795170245", NOW, 1795170245, id="as a number"),
        pytest.param("Claude AI usage limit reached|1784770200", NOW, None, id="as a number that passed"),
        pytest.param("Claude AI usage limit reached|1895170245", NOW, None, id="as a number far away"),
        pytest.param("resets 3pm (Mars/Olympus)", NOW, None, id="an unknown zone"),
        pytest.param("resets 3pm (Europe)", NOW, None, id="half a zone"),
        pytest.param("resets 3pm (../../etc/passwd)", NOW, None, id="no zone at all"),
        pytest.param("resets 3pm CET", NOW, None, id="a zone without brackets is not left out"),
        pytest.param("resets 13pm (UTC)", NOW, None, id="no hour"),
        pytest.param("resets 3:60pm (UTC)", NOW, None, id="no minute"),
        pytest.param("resets soon", NOW, None, id="no time"),
        pytest.param("You've hit your limit", NOW, None, id="nothing said"),
        pytest.param("presets 3pm (UTC)", NOW, None, id="another word"),
    ],
)
def test_until_when(text: str, now: float, until: float | None) -> None:
    assert errors.resets_at(text, now) == until


BEFORE, BETWEEN, AFTER = "2026-10-25 00:10", "2026-10-25 00:40", "2026-10-25 01:10"


@pytest.mark.parametrize(
    ("text", "now", "until"),
    [
        pytest.param("3:30am", at("2026-03-29 00:10"), at("2026-03-29 01:30"), id="after the hour that is left out"),
        pytest.param("2:30am", at("2026-03-29 00:10"), at("2026-03-29 01:30"), id="in it: as if it were not"),
        pytest.param("2:30am", at("2026-03-28 12:00"), at("2026-03-29 01:30"), id="in it, seen from the day before"),
        pytest.param("Mar 29, 2:30am", at("2026-03-27 12:00"), at("2026-03-29 01:30"), id="in it, with a date"),
        pytest.param("9am", at("2026-03-28 10:30"), at("2026-03-29 07:00"), id="over a short night"),
        pytest.param("9am", at("2026-03-28 09:30"), None, id="just passed, before a short night"),
        pytest.param("2:30am", at(BEFORE), at("2026-10-25 00:30"), id="in the hour that comes twice: the first"),
        pytest.param("2:30am", at(BETWEEN), at("2026-10-25 01:30"), id="in it: the second, when the first passed"),
        pytest.param("2am", at(AFTER), None, id="in it: both passed"),
        pytest.param("Oct 25, 2:30am", at("2026-10-23 12:00"), at("2026-10-25 00:30"), id="in it, with a date"),
        pytest.param("9am", at("2026-10-24 12:00"), at("2026-10-25 08:00"), id="over a long night"),
    ],
)
def test_until_when_in_the_nights_when_clocks_are_put_back_or_forward(
    text: str, now: float, until: float | None
) -> None:
    assert errors.resets_at(f"resets {text} (Europe/Berlin)", now) == until


@pytest.fixture
def machine_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts the machine's clock into a zone."""
    with monkeypatch.context() as patched:

        def put(zone: str) -> None:
            patched.setenv("TZ", zone)
            time.tzset()

        yield put
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "text", "until"),
    [
        pytest.param("America/New_York", "9pm", at("2026-11-20 21:00", "America/New_York"), id="in a zone"),
        pytest.param("America/New_York", "Nov 23, 9:56am", at("2026-11-23 14:56"), id="with a date"),
        pytest.param("XYZ-5:30", "9pm", at("2026-11-20 15:30"), id="in a zone that has no name"),
        pytest.param("UTC", "9am", None, id="just passed"),
    ],
)
def test_without_a_zone_it_is_the_machines(
    machine_in: Callable[[str], None], zone: str, text: str, until: float | None
) -> None:
    machine_in(zone)
    assert errors.resets_at(f"You're out of extra usage · resets {text}", NOW) == until


def printed(reset: float, now: float, zone: ZoneInfo) -> str:
    """As the agent writes it: to the minute, with a date when that is over a day away, with a year when it ends."""
    there, here = dt.datetime.fromtimestamp(reset, zone), dt.datetime.fromtimestamp(now, zone)
    minute = f":{there.minute:02}" if there.minute else ""
    clock = f"{there.hour % 12 or 12}{minute}{'am' if there.hour < 12 else 'pm'} ({zone.key})"
    year = f"{there.year}, " if there.year != here.year else ""
    return f"{there:%b} {there.day}, {year}{clock}" if reset - now > DAY_S else clock


zones = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "America/St_Johns",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Asia/Tokyo",
        "Australia/Lord_Howe",
        "Pacific/Chatham",
        "Pacific/Apia",
        "Pacific/Pago_Pago",
        "Africa/Casablanca",
        "America/Sao_Paulo",
        "Etc/GMT+12",
    ]
).map(ZoneInfo)
moments = st.integers(int(at("2024-01-01 00:00")), int(at("2032-01-01 00:00")))
within_a_day = st.integers(60, 21 * 3600)
"""A time of day further ahead is one that passed within the last two hours, or three where clocks are put forward."""
within_a_week = st.integers(DAY_S + 1, 8 * DAY_S)


@thorough
@given(moments, within_a_day | within_a_week, zones)
def test_any_reset_that_the_agent_prints_is_read_to_the_minute(now: int, ahead_s: int, zone: ZoneInfo) -> None:
    there = dt.datetime.fromtimestamp(now + ahead_s, zone)
    assume(there.utcoffset() == there.replace(fold=1 - there.fold).utcoffset())  # what comes twice can be read twice
    text = f"You've hit your weekly limit · resets {printed(now + ahead_s, now, zone)}"
    assert errors.is_limit(text)
    assert errors.resets_at(text, now) == (now + ahead_s) // 60 * 60


@thorough
@given(moments, st.integers(0, 3600), zones)
def test_a_reset_that_just_passed_is_never_waited_a_day_for(now: int, ago_s: int, zone: ZoneInfo) -> None:
    until = errors.resets_at(f"resets {printed(now - ago_s, now, zone)}", now)
    assert until is None or until - now <= 3600


@thorough
@given(
    moments, st.text(max_size=20), st.sampled_from(["resets 3pm ({})", "resets {}", "resets {} 3, 7am", "x|{}", "{}"])
)
def test_no_words_break_it(now: int, words: str, around: str) -> None:
    until = errors.resets_at(around.format(words), now)
    assert until is None or now < until <= now + 8 * DAY_S
    assert not errors.is_limit(around.format(words))


LAZY = """
import sys
from ralph.agent import errors
assert errors.is_limit("You've hit your limit") and not errors.is_passing("fine")
assert not {"datetime", "_strptime", "zoneinfo"} & set(sys.modules), sys.modules
"""


def test_what_only_a_limit_needs_is_loaded_by_a_limit() -> None:
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(CHECKOUT)!r}]{LAZY}"], check=True
    )


WITHOUT_ZONES = """
import zoneinfo
from ralph.agent import errors
zoneinfo.reset_tzpath([])
print(errors.resets_at("resets 12pm (UTC)", 1795168800), errors.resets_at("resets 12pm (Europe/Berlin)", 1795168800))
"""


def test_a_machine_without_a_time_zone_database_knows_utc() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ZONES], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["1795176000", "None"]


@pytest.mark.parametrize("text", ["You've hit your " + "x " * 500_000, "resets " * 200_000, "API Error: " * 100_000])
def test_a_long_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    assert not errors.is_limit(text)
    assert not errors.needs_person(text)
    assert not errors.is_passing(text)
    assert errors.resets_at(text, NOW) is None
    assert time.process_time() - began < 2

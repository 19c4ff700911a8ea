"""What the words of the agent's own errors mean: each message known, and many that only look like one."""

import time

import pytest

from ralph.agent import command
from ralph.agent.turn import Outcome
from ralph.settings import Settings

rule = command.chosen(Settings())[0].rule

LIMITS = [
    "You've hit your limit",
    "You've hit your session limit · resets 10:10pm (Europe/Madrid)",
    "You\u2019ve hit your session limit ∙ resets 10:24am (UTC)",
    "You've hit your session limit - resets 10:24\u202fAM (UTC).",
    "You've hit your weekly limit · resets Jan 2, 2027, 9:56am (UTC)",
    "You've hit your session limit · resets 3pm (UTC) · /upgrade to increase your usage limit.",
    "You've reached your Fable 5 limit. Run /usage-credits to continue or switch models with /model.",
    "You're out of usage credits · resets 9pm (UTC)",
    "5-hour limit reached · resets 3pm (Europe/Stockholm)",
    "Opus weekly limit reached ∙ resets Aug 3 at 7am",
    "Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).",
    "Claude AI usage limit reached|1784770200",
]
NEED_A_PERSON = [
    "Credit balance is too low",
    "You've hit your limit · ask your admin to increase it",
    "Your usage allocation has been disabled by your admin",
    "Your organization is out of usage credits. Contact your admin to add more.",
    "Your seat type doesn\u2019t include usage credits",
    "This service is disabled for your org",
    "API Error: Usage credits required for 1M context · turn on usage credits at claude.ai/settings/usage",
    "API Error: 429 Extra usage is required for long context requests.",
    "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01.",
    "Fable 5 requires usage credits. Run /usage-credits to continue or switch models with /model.",
]
PASSING = [
    "API Error: Unable to connect to API (ConnectionRefused)",
    "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again.",
    "API Error: The socket connection was closed unexpectedly. For more information, pass `verbose: true`",
    "Request timed out",
    "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary.",
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    'API Error (529 {"type":"error"}) · Retrying in 1 seconds',
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
    "Opus is experiencing high load, please use /model to switch to Sonnet",
    "Error: No messages returned from query",
    "TypeError: fetch failed",
    "Error: socket hang up",
    "Error: getaddrinfo ENOTFOUND api.anthropic.com",
    "Error: request to https://api.anthropic.com/v1/messages failed, reason: connect ECONNREFUSED 127.0.0.1:1",
]
OTHERS = [
    "",
    "You've hit your session limit and should wait.",
    "You've hit your session limit · resets 3pm (UTC). I will go on with the tests then.",
    "You've hit your session limit · resets 3pm (UTC)\nI will go on then.",
    "You've hit your session limit\u2028resets 3pm",
    "- You've hit your session limit · resets 3pm (UTC)",
    '"You\'ve hit your session limit · resets 3pm (UTC)"',
    "You've hit your session limit · resets when you pay",
    "You've used 93% of your session limit · resets 3pm (UTC)",
    "You're now using usage credits · Your session limit resets 3pm (UTC)",
    "The text 5-hour limit reached · resets 3pm is matched now.",
    "Claude AI usage limit reached|soon",
    "Credit balance is too low for the test in test_credit.py to pass",
    "API Error: 404 Not found",
    "API Error: Unable to connect to API: SSL certificate has expired",
    "API Error: The operation timed out in the test that I wrote",
    "API Error: Claude's response exceeded the 64000 output token maximum.",
    "Error: No messages returned is what people see",
    "Error: the build failed with ETIMEDOUT",
    "API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit",
]


@pytest.mark.parametrize(
    ("text", "meant"),
    [(text, Outcome.LIMIT) for text in LIMITS]
    + [(text, Outcome.HOPELESS) for text in NEED_A_PERSON]
    + [(text, Outcome.TROUBLE) for text in PASSING]
    + [(text, None) for text in OTHERS],
)
def test_a_text_means_one_thing_at_most(text: str, meant: Outcome | None) -> None:
    assert (found.means if (found := rule(text)) else None) == meant


def test_a_limit_that_only_a_person_can_lift_is_not_waited_for() -> None:
    found = rule("You've hit your org's monthly spend limit", "rate_limit", 429)
    assert found
    assert found[:2] == (Outcome.HOPELESS, "no waiting mends this: add credit, or ask who pays")


@pytest.mark.parametrize("text", ["You've hit your " + "x " * 500_000, "resets " * 200_000, "API Error: " * 100_000])
def test_a_long_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    assert rule(text) is None
    assert time.process_time() - began < 10

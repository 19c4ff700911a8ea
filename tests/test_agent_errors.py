"""What the words of the agent's own errors mean: each message known, and many that only look like one."""

import time

import pytest

from ralph.agent import command
from ralph.agent.turn import Outcome
from ralph.settings.table import Settings

rule = command.choose_agents(Settings())[0].rule

MEANS = {
    "You\u2019ve hit your session limit ∙ resets 10:24am (Europe/Madrid)": Outcome.LIMIT,
    "You've hit your session limit - resets 10:24\u202fAM (UTC).": Outcome.LIMIT,
    "You've hit your weekly limit · resets Jan 2, 2027, 9:56am (UTC)": Outcome.LIMIT,
    "You've reached your Fable 5 limit. Run /usage-credits to continue or switch models with /model.": Outcome.LIMIT,
    "You're out of usage credits · resets 9pm (UTC)": Outcome.LIMIT,
    "Opus weekly limit reached ∙ resets Aug 3 at 7am": Outcome.LIMIT,
    "Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).": Outcome.LIMIT,
    "Claude AI usage limit reached|1784770200": Outcome.LIMIT,
    "You've hit your limit · ask your admin to increase it": Outcome.HOPELESS,
    "Your organization is out of usage credits. Contact your admin to add more.": Outcome.HOPELESS,
    "Credit balance is too low": Outcome.HOPELESS,
    "API Error: 429 Extra usage is required for long context requests.": Outcome.HOPELESS,
    "API Error: 400 You have reached your specified API usage limits.": Outcome.HOPELESS,
    "Fable 5 requires usage credits. Run /usage-credits to continue or switch models with /model.": Outcome.HOPELESS,
    'API Error (529 {"type":"error"}) · Retrying in 1 seconds': Outcome.TROUBLE,
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited": Outcome.TROUBLE,
    "Opus is experiencing high load, please use /model to switch to Sonnet": Outcome.TROUBLE,
    "TypeError: fetch failed": Outcome.TROUBLE,
    "Error: request to https://x/v1/messages failed, reason: connect ECONNREFUSED 127.0.0.1:1": Outcome.TROUBLE,
    "You've hit your session limit · resets 3pm (UTC). I will continue with the tests then.": Outcome.FAILED,
    "You've hit your session limit\u2028resets 3pm": Outcome.FAILED,
    "- You've hit your session limit · resets 3pm (UTC)": Outcome.FAILED,
    "You've used 93% of your session limit · resets 3pm (UTC)": Outcome.FAILED,
    "You're now using usage credits · Your session limit resets 3pm (UTC)": Outcome.FAILED,
    "Credit balance is too low for the test in test_credit.py to pass": Outcome.FAILED,
    "API Error: 404 Not found": Outcome.FAILED,
    "API Error: Unable to connect to API: SSL certificate has expired": Outcome.FAILED,
    "API Error: The operation timed out in the test that I wrote": Outcome.FAILED,
    "Error: the build failed with ETIMEDOUT": Outcome.FAILED,
}


@pytest.mark.parametrize(("text", "meant"), MEANS.items())
def test_a_text_means_one_thing_at_most(text: str, meant: Outcome) -> None:
    assert rule(text).means is meant


@pytest.mark.parametrize("text", ["You've hit your " + "x " * 500_000, "resets " * 200_000, "API Error: " * 100_000])
def test_a_long_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    assert rule(text).means is Outcome.FAILED
    assert time.process_time() - began < 10

"""Which master a call goes to, and after which pause."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.client.masters import Attempts, Masters, parse_masters
from stoker.client.options import ClientOptions
from stoker.core.errors import CallTimedOut, InvalidOption, Unavailable


def test_masters_are_named_by_urls_with_or_without_scheme() -> None:
    assert parse_masters("http://a:8081, b:8082,https://c/") == (
        "http://a:8081",
        "http://b:8082",
        "https://c",
    )


@pytest.mark.parametrize(
    "text", ["", " , ", "ftp://a", "http://", "http://a:port", "http://a:99999"]
)
def test_an_invalid_url_of_a_master_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"http://127\.0\.0\.1:8081"):
        parse_masters(text)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            "the leading master at http://b refuses connections; try again",
            "the leading master at http://b refuses connections",
        ),
        (
            "no dispatcher leads at the moment; try again shortly",
            "no dispatcher leads at the moment",
        ),
        ("the disk is full; free some space, then try again", "the disk is full; free some space"),
    ],
)
def test_the_reason_of_a_repetition_does_not_ask_to_try_again(answer: str, reason: str) -> None:
    """The client says before it that it tries again; an error keeps the advice."""
    attempts = Attempts(Masters(("http://a",)), ClientOptions(retries=1))
    attempts.record_answer()
    attempts.record_unavailable(answer)
    assert attempts.reason == reason
    with pytest.raises(Unavailable, match="try again"):
        attempts.record_unavailable(answer)


def test_a_call_is_repeated_20_times_3_seconds_apart_by_default() -> None:
    """The attempt after the last repetition raises Unavailable (REST-25)."""
    attempts = Attempts(Masters(("http://a",)), ClientOptions())
    attempts.record_answer()
    pauses = [attempts.record_unreachable("refused") for _ in range(20)]
    assert pauses == [3.0] * 20
    with pytest.raises(Unavailable, match="cannot reach a Stoker master at http://a: refused"):
        attempts.record_unreachable("refused")


@pytest.mark.parametrize(
    ("options", "pauses"),
    [
        (ClientOptions(), [0.5, 0.5]),
        (ClientOptions(retries=0), []),
        (ClientOptions(first_contact=timedelta(seconds=2)), [0.5] * 4),
        (ClientOptions(retry_delay=timedelta(seconds=0.25)), [0.25] * 4),
        (ClientOptions(first_contact=timedelta(hours=1)), [0.5] * 20),
    ],
)
def test_masters_that_never_answered_are_given_up_after_a_second(
    options: ClientOptions, pauses: list[float]
) -> None:
    """The address may be wrong (REST-25)."""
    attempts = Attempts(Masters(("http://a", "http://b")), options)
    paused: list[float] = []
    with pytest.raises(Unavailable, match="connection refused"):
        while True:
            paused.append(attempts.record_unreachable("connection refused"))
    assert [seconds for seconds in paused if seconds] == pauses


def test_a_master_that_has_answered_once_is_waited_for_in_later_calls() -> None:
    masters = Masters(("http://a",))
    Attempts(masters, ClientOptions()).record_answer()
    assert Attempts(masters, ClientOptions()).record_unreachable("connection refused") == 3.0


@given(st.integers(1, 5), st.integers(0, 5))
def test_every_master_is_asked_in_every_round(masters: int, retries: int) -> None:
    urls = tuple(f"http://m{number}" for number in range(masters))
    options = ClientOptions(retries=retries, retry_delay=timedelta(seconds=1))
    attempts = Attempts(Masters(urls), options)
    attempts.record_answer()
    asked, pauses = [], []
    with pytest.raises(Unavailable):
        while True:
            asked.append(attempts.url)
            pauses.append(attempts.record_unavailable("no leader"))
    assert asked == list(urls) * (retries + 1)
    assert sum(pauses) == retries


def test_the_next_master_is_asked_when_one_is_silent_for_seconds() -> None:
    attempts = Attempts(Masters(("http://a", "http://b")), ClientOptions())
    assert attempts.patience == 5.0
    assert attempts.record_silence(5.0) == 0.0
    assert attempts.url == "http://b"


def test_the_only_master_has_the_whole_timeout() -> None:
    attempts = Attempts(Masters(("http://a",)), ClientOptions())
    assert attempts.patience == 60.0
    with pytest.raises(CallTimedOut, match="http://a gave no answer within 60 s"):
        attempts.record_silence(60.0)


def test_masters_that_are_all_silent_get_more_time_in_each_round() -> None:
    attempts = Attempts(Masters(("http://a", "http://b")), ClientOptions())
    patience = []
    with pytest.raises(CallTimedOut):
        while True:
            patience.append(attempts.patience)
            attempts.record_silence(attempts.patience)
    assert patience == [5.0, 5.0, 10.0, 10.0, 20.0, 20.0, 40.0, 40.0, 60.0, 60.0]


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 4), st.integers(0, 3))
def test_every_call_ends(silences: list[bool], masters: int, retries: int) -> None:
    urls = tuple(f"http://m{number}" for number in range(masters))
    attempts = Attempts(Masters(urls), ClientOptions(retries=retries))
    asked = 0
    try:
        for silent in [*silences, *[True] * 100]:
            asked += 1
            attempts.record_silence(attempts.patience) if silent else attempts.record_unavailable(
                "no leader"
            )
    except (Unavailable, CallTimedOut):
        pass
    # Four rounds of growing timeouts and one of the full timeout, besides rounds with an answer.
    assert asked <= masters * (retries + 1 + 5)

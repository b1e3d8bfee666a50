"""Which masters `stoker.connect()` speaks to."""

import pytest

import stoker
from stoker.client.connect import DEFAULT_MASTER
from stoker.client.options import ClientOptions

OPTIONS = ClientOptions(master="http://127.0.0.1:2", retries=0)


@pytest.mark.parametrize(
    ("masters", "options", "variable", "asked"),
    [
        ("http://127.0.0.1:1", OPTIONS, "http://127.0.0.1:3", "http://127.0.0.1:1"),
        (None, OPTIONS, "http://127.0.0.1:3", "http://127.0.0.1:2"),
        (None, ClientOptions(retries=0), "http://127.0.0.1:3", "http://127.0.0.1:3"),
        (None, ClientOptions(retries=0), "", DEFAULT_MASTER),
    ],
)
def test_an_argument_counts_before_an_option_and_an_option_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    masters: str | None,
    options: ClientOptions,
    variable: str,
    asked: str,
) -> None:
    monkeypatch.setenv("STOKER_MASTER", variable)
    cluster = stoker.connect(masters, options=options)
    assert cluster.client._masters.urls == (asked,)

"""Which cluster `stoker.connect()` speaks to, and with which options."""

from pathlib import Path

import pytest

import stoker
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidOption, Unavailable

OPTIONS = ClientOptions(master="http://127.0.0.1:2", retries=0)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration file and no local cluster but those that a test makes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    monkeypatch.delenv("STOKER_MASTER", raising=False)
    monkeypatch.delenv("STOKER_LOCAL_CLUSTER", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("masters", "options", "variable", "asked"),
    [
        ("http://127.0.0.1:1", OPTIONS, "http://127.0.0.1:3", "http://127.0.0.1:1"),
        (None, OPTIONS, "http://127.0.0.1:3", "http://127.0.0.1:2"),
        (None, ClientOptions(retries=0), "http://127.0.0.1:3", "http://127.0.0.1:3"),
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


def test_without_a_cluster_the_error_says_how_to_name_one(empty_folder: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        stoker.connect()
    assert str(empty_folder / "local") in str(caught.value)
    assert 'stoker.connect("http://HOST:PORT")' in str(caught.value)
    assert "stoker cluster up" in str(caught.value)


def test_the_configuration_sets_the_options_of_the_client(empty_folder: Path) -> None:
    (empty_folder / "stoker.yml").write_text(
        "client:\n  master: http://elsewhere:1\n  token: stk_a_b\n  timeout: 7 s\n"
    )
    client = stoker.connect().client
    assert client._masters.urls == ("http://elsewhere:1",)
    assert client._options.token == "stk_a_b"
    assert client._options.timeout.total_seconds() == 7


async def test_options_in_code_replace_those_of_the_configuration(empty_folder: Path) -> None:
    (empty_folder / "stoker.yml").write_text(
        "client:\n  master: http://elsewhere:1\n  token: stk_a_b\n  timeout: 7 s\n"
    )
    async with stoker.connect_async(options=ClientOptions(retries=0)) as cluster:
        client = cluster.client
        assert client._masters.urls == ("http://elsewhere:1",)
        assert (client._options.token, client._options.retries) == ("stk_a_b", 0)
        assert client._options.timeout == ClientOptions().timeout


def test_a_mistake_in_the_configuration_is_reported_with_its_place(empty_folder: Path) -> None:
    (empty_folder / "stoker.yml").write_text("client:\n  mastr: http://elsewhere:1\n")
    with pytest.raises(InvalidOption, match=r"stoker\.yml:2: there is no option client\.mastr"):
        stoker.connect()

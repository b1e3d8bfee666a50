"""The token of a local cluster, and who is shown it."""

import json
import os
from pathlib import Path

import pytest

import stoker
from stoker.cli.connection import _warn_of_plain_token, _with_token
from stoker.client.options import ClientOptions
from stoker.osproc.process_tree import start_time
from stoker.osproc.unix_socket import url_of_socket
from stoker.processes.discovery import through_sockets, with_trusted_user
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import (
    MARK,
    ClusterState,
    ProcessRecord,
    socket_of,
    write_state,
)
from stoker.processes.local.token import hashes_of, make_token, remove_token, token_for, token_of
from stoker.security.tokens import Role, TokenFile, find

URL = "http://127.0.0.1:8085"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local cluster whose only master is this process."""
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    monkeypatch.delenv(MARK, raising=False)
    place = tmp_path / "local"
    (place / "work" / "master-1").mkdir(parents=True)
    record_master(place, started=start_time(os.getpid()) or 0)
    make_token(place)
    return place


def record_master(place: Path, *, started: int) -> None:
    address = {"pid": os.getpid(), "rest_url": URL, "rpc_address": "grpc://127.0.0.1:1"}
    (place / "work" / "master-1" / "master.json").write_text(json.dumps(address))
    record = ProcessRecord(name="master-1", pid=os.getpid(), started=started, log="")
    write_state(place, ClusterState(masters=(record,)))


def test_the_token_opens_everything_and_only_its_user_can_read_it(directory: Path) -> None:
    hashes, text = hashes_of(directory), token_of(directory)
    assert hashes is not None
    assert text is not None
    known = find(TokenFile(hashes).tokens, text)
    assert known is not None
    assert known.role is Role.OPERATE
    assert text not in hashes.read_text()
    for name in ("rest-token", "rest-tokens.json"):
        assert (directory / name).stat().st_mode & 0o077 == 0


def test_a_cluster_keeps_its_token_over_restarts_and_gives_it_up_on_request(
    directory: Path,
) -> None:
    text = token_of(directory)
    make_token(directory)
    assert token_of(directory) == text
    remove_token(directory)
    assert token_of(directory) is hashes_of(directory) is None


def socket_url(directory: Path, name: str = "master-1") -> str:
    return url_of_socket(socket_of(directory, name))


def test_masters_are_shown_the_token_of_their_cluster_at_their_sockets(directory: Path) -> None:
    one, two = socket_url(directory), socket_url(directory, "master-2")
    assert token_for(one) == token_for(f"{one},{two}") == token_of(directory)


def test_nobody_else_is_shown_the_token(directory: Path, tmp_path: Path) -> None:
    """Not even at the port of a master: whoever gets the port next would see it."""
    others = (URL, "http://127.0.0.1:8086", socket_url(tmp_path), "unix:///master-1.socket")
    for other in others:
        assert token_for(other) is None
        assert token_for(f"{socket_url(directory)},{other}") is None


def test_a_program_finds_the_token_of_the_cluster_that_runs_it(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "elsewhere"))
    assert token_for(socket_url(directory)) is None
    monkeypatch.setenv(MARK, str(directory))
    assert token_for(socket_url(directory)) == token_of(directory)


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_master_is_found_at_its_socket_also_by_the_url_of_its_port(
    directory: Path, is_alive: bool
) -> None:
    record_master(directory, started=(start_time(os.getpid()) or 0) if is_alive else 1)
    other = "http://127.0.0.1:8086"
    expected = socket_url(directory) if is_alive else URL
    assert through_sockets(f"{URL}/, {other}") == f"{expected},{other}"


def test_a_damaged_record_does_not_keep_from_other_clusters(directory: Path) -> None:
    (directory / "cluster.json").write_text("{")
    assert through_sockets(URL) == URL


def test_with_a_local_cluster_only_this_user_is_shown_a_token_at_a_port(directory: Path) -> None:
    assert with_trusted_user(ClientOptions()).server_user == str(os.getuid())
    assert with_trusted_user(ClientOptions(server_user="stoker")).server_user == "stoker"
    assert stoker.connect("http://127.0.0.1:1").client._options.server_user == str(os.getuid())
    assert _with_token(ClientOptions(), URL).server_user == str(os.getuid())
    (directory / "cluster.json").unlink()
    assert with_trusted_user(ClientOptions()).server_user is None


def test_the_files_of_a_local_cluster_are_private_in_a_directory_open_to_all(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "of-the-user").write_text("x")
    before = os.umask(0)
    try:
        with LocalCluster(tmp_path, tied=True) as cluster:
            cluster.start(masters=0, task_executors=0, with_token=True)
            open_to_others = {
                each.name for each in tmp_path.iterdir() if each.stat().st_mode & 0o077
            }
            assert {each.name for each in tmp_path.iterdir()} > {"log", "storage", "rest-token"}
    finally:
        os.umask(before)
    assert open_to_others == {"of-the-user"}


def test_a_program_of_the_user_needs_to_know_nothing_of_the_token(directory: Path) -> None:
    """Not even a token that is set for another cluster is shown to the local one."""

    assert stoker.connect().client._options.token == token_of(directory)
    assert stoker.connect(URL).client._options.token == token_of(directory)
    assert stoker.connect(token="mine").client._options.token == "mine"
    options = ClientOptions(token="of another cluster")
    assert stoker.connect("http://127.0.0.1:1").client._options.token is None
    assert _with_token(options, socket_url(directory)).token == token_of(directory)
    assert _with_token(options, "http://127.0.0.1:1").token == "of another cluster"


def test_a_token_in_clear_text_on_a_network_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ClientOptions(token="stk_a_b")
    for quiet in ("https://stoker.example", "http://127.0.0.1:8081", "http://localhost:8081"):
        _warn_of_plain_token(options, quiet)
    _warn_of_plain_token(ClientOptions(), "http://stoker.example:8081")
    assert capsys.readouterr().err == ""
    _warn_of_plain_token(options, "https://one.example,http://two.example:8081")
    said = capsys.readouterr().err
    assert "two.example in clear text" in said
    assert "stk_a_b" not in said


@pytest.mark.parametrize("deleted", ["rest-token", "rest-tokens.json"])
def test_a_cluster_with_a_deleted_token_is_not_open_after_a_restart(
    directory: Path, deleted: str
) -> None:
    (directory / deleted).unlink()
    start = LocalCluster(directory).last_start
    assert start is not None
    assert start.has_token


def test_a_cluster_that_was_started_without_a_token_stays_open(directory: Path) -> None:
    remove_token(directory)
    start = LocalCluster(directory).last_start
    assert start is not None
    assert not start.has_token

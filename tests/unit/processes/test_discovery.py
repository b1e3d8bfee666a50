"""Commands, programs and `stoker.connect()` find the same cluster, by the same rules."""

import json
import os
from pathlib import Path

import pytest

import stoker
from stoker.cli.connection import find_masters
from stoker.cli.options.invocation import Invocation
from stoker.core.errors import InvalidOption, Unavailable
from stoker.osproc.process_tree import start_time
from stoker.osproc.unix_socket import url_of_socket
from stoker.processes.discovery import (
    MASTER_VARIABLE,
    name_masters_for_programs,
    read_configuration,
)
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    socket_of,
    write_state,
)

ARGUMENT = "http://argument:1"
VARIABLE = "http://variable:2"
SURROUNDING = "http://surrounding:3"
OPTION = "http://option:4"
LOCAL = "http://local:5"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("STOKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def make_local_cluster(directory: Path, url: str, *, alive: bool = True) -> None:
    """The files of a local cluster whose master is this process, or a process that has ended."""
    started = start_time(os.getpid())
    assert started is not None
    record = ProcessRecord(
        name="master-1", pid=os.getpid(), started=started if alive else 1, log=""
    )
    (directory / "work" / "master-1").mkdir(parents=True)
    address = {"pid": os.getpid(), "rest_url": url}
    (directory / "work" / "master-1" / "master.json").write_text(json.dumps(address))
    write_state(directory, ClusterState(masters=(record,)))


def found_by_command(named: str | None = None) -> str | None:
    return find_masters(Invocation(master=named))


def found_by_client(named: str | None = None) -> str:
    return str(stoker.connect(named).client._masters)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"argument", "variable", "surrounding", "option", "local"}, ARGUMENT),
        ({"variable", "surrounding", "option", "local"}, VARIABLE),
        ({"surrounding", "option", "local"}, SURROUNDING),
        ({"option", "local"}, OPTION),
        ({"local"}, LOCAL),
    ],
)
def test_the_command_line_and_the_client_find_the_same_cluster(
    home: Path, monkeypatch: pytest.MonkeyPatch, sources: set[str], expected: str
) -> None:
    if "variable" in sources:
        monkeypatch.setenv("STOKER_MASTER", VARIABLE)
    if "surrounding" in sources:
        make_local_cluster(home.parent / "other", SURROUNDING)
        monkeypatch.setenv("STOKER_LOCAL_CLUSTER", str(home.parent / "other"))
    if "option" in sources:
        Path("stoker.yml").write_text(f"client:\n  master: {OPTION}\n")
    if "local" in sources:
        make_local_cluster(home / "local", LOCAL)
    named = ARGUMENT if "argument" in sources else None
    folders = {SURROUNDING: home.parent / "other", LOCAL: home / "local"}
    if expected in folders:
        expected = url_of_socket(socket_of(folders[expected], "master-1"))
    assert found_by_command(named) == expected
    assert found_by_client(named) == expected


def test_without_any_cluster_a_command_may_start_one_and_the_client_says_so() -> None:
    assert found_by_command() is None
    with pytest.raises(Unavailable, match="no master is named"):
        found_by_client()


@pytest.mark.parametrize("find", [found_by_command, found_by_client])
def test_a_local_cluster_that_died_is_never_replaced_by_another(home: Path, find) -> None:
    make_local_cluster(home / "local", LOCAL, alive=False)
    with pytest.raises(Unavailable, match=r"master-1 \(pid \d+\) died; .*stoker cluster up"):
        find()


@pytest.mark.parametrize("find", [found_by_command, found_by_client])
def test_a_program_never_leaves_the_cluster_that_runs_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, find
) -> None:
    make_local_cluster(home / "local", LOCAL)
    make_local_cluster(home.parent / "other", SURROUNDING, alive=False)
    monkeypatch.setenv("STOKER_LOCAL_CLUSTER", str(home.parent / "other"))
    with pytest.raises(Unavailable, match="other does not answer"):
        find()


def test_a_task_executor_names_the_masters_to_its_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STOKER_MASTER", "")
    monkeypatch.delenv("STOKER_MASTER")
    name_masters_for_programs(read_configuration(None, [f"client.master={OPTION}"]))
    assert os.environ[MASTER_VARIABLE] == OPTION


def test_a_local_cluster_leaves_it_to_its_record_where_its_masters_are(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_LOCAL_CLUSTER", str(home / "local"))
    name_masters_for_programs(read_configuration(None, [f"client.master={OPTION}"]))
    assert "STOKER_MASTER" not in os.environ


def write_folder_file(folder: Path, text: str) -> Path:
    path = folder / "stoker.yml"
    path.write_text(text)
    return path


def test_a_file_of_the_directory_does_not_decide_who_is_shown_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come with a cloned repository."""
    path = write_folder_file(tmp_path, f"client.master: {OPTION}\n")
    monkeypatch.setenv("STOKER_CLIENT_TOKEN", "stk_operators_secret")
    for refused in (lambda: find_masters(Invocation()), stoker.connect):
        with pytest.raises(InvalidOption, match=f"not sent to {OPTION}.*-m {OPTION}") as caught:
            refused()
        assert "operators_secret" not in caught.value.message
        assert f"--config {path} or $STOKER_CONFIG" in caught.value.message
    assert find_masters(Invocation(master=ARGUMENT)) == ARGUMENT
    assert find_masters(Invocation(config=path)) == OPTION
    monkeypatch.setenv("STOKER_CLIENT_MASTER", VARIABLE)
    assert find_masters(Invocation()) == VARIABLE


def test_a_file_that_names_both_master_and_token_is_used(tmp_path: Path) -> None:
    write_folder_file(tmp_path, f"client:\n  master: {OPTION}\n  token: stk_a_b\n")
    assert find_masters(Invocation()) == OPTION


def test_a_file_of_the_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = write_folder_file(tmp_path, f"client.master: {OPTION}\n")
    path.chmod(0o666)
    with pytest.raises(InvalidOption, match=rf"every user may write.*--config {path}"):
        find_masters(Invocation())
    assert find_masters(Invocation(config=path)) == OPTION

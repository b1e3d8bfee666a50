"""Options of Flink's command line have the same meaning in `stoker`."""

import sys
import zipfile
from pathlib import Path

import click
import msgspec
import pytest

from instant_savepoints import InstantSavepoints
from stoker.cli.main import COMMANDS, cli
from stoker.core.graph import ArtifactKind, JobGraph, Program
from stoker.rest.jobs import checkpoint_handlers
from stoker.testing.sample_jobs import RUNNING, STREAM, streaming_details
from unit.cli.conftest import ServedMaster, Stoker

PIPELINES = """
from stoker import Pipeline

for name in ("first", "second"):
    job = globals()[name] = Pipeline(name)
    job.source("numbers", format="json", path="/in")
    job.sink("numbers", name="copies", format="json", path="/out")
"""
TARGET_OPTIONS = " -m --jobmanager -D -t --target -e --executor -z --zookeeperNamespace -yid"
FLINK_OPTIONS = {
    "run": "-c --class -d --detached -n --allowNonRestoredState -p --parallelism -py --python "
    "-pyfs --pyFiles -pyreq --pyRequirements -s --fromSavepoint -sae --shutdownOnAttachedExit "
    "-D -m --jobmanager -cm --claimMode -rm --restoreMode "
    "-pypath --pyPythonPath -pyclientexec --pyClientExecutable -t --target -e --executor "
    # Refused, with a remedy.
    "-z --zookeeperNamespace -yid --yarnapplicationId "
    "-C --classpath -pyexec --pyExecutable -pyarch --pyArchives -pym --pyModule",
    "info": "-c --class -p --parallelism",
    "list": "-a --all -r --running -s --scheduled" + TARGET_OPTIONS,
    "stop": "-d --drain -detached -p --savepointPath -type --type" + TARGET_OPTIONS,
    "cancel": "-s --withSavepoint" + TARGET_OPTIONS,
    "savepoint trigger": "-detached -type --type -j --jarfile" + TARGET_OPTIONS,
    "savepoint dispose": "-j --jarfile" + TARGET_OPTIONS,
    "checkpoint trigger": "-full --full" + TARGET_OPTIONS,
}
"""The options of each command in Flink 2.3."""


@pytest.mark.parametrize("path", sorted(FLINK_OPTIONS))
def test_every_option_of_flinks_command_is_known(path: str) -> None:
    command: click.Command | None = cli
    context = click.Context(cli, info_name="stoker")
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=context)
    assert command is not None
    known = {name for param in command.params for name in param.opts}
    assert set(FLINK_OPTIONS[path].split()) - known == set()


def test_no_two_options_of_a_command_share_a_name() -> None:
    context = click.Context(cli, info_name="stoker")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        names = [each for param in command.params for each in param.opts if each.startswith("-")]
        assert len(names) == len(set(names)), name


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    path = tmp_path / "pipelines.py"
    path.write_text(PIPELINES)
    return path


def info(stoker: Stoker, *arguments: str | Path) -> JobGraph:
    result = stoker("info", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return msgspec.json.decode(result.stdout, type=JobGraph)


def test_options_select_a_pipeline_and_its_shuffle_partitions(
    stoker: Stoker, pipelines: Path
) -> None:
    graph = info(stoker, pipelines, "-c", "second", "-p", "7", "-D", "spark.sql.ansi.enabled=true")
    assert graph.name == "second"
    assert graph.configuration == {
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.ansi.enabled": "true",
    }
    wins = info(stoker, pipelines, "-c", "first", "-p7", "--conf", "spark.sql.shuffle.partitions=3")
    assert wins.configuration == {"spark.sql.shuffle.partitions": "3"}


def test_flink_options_name_a_script_and_its_files(stoker: Stoker, tmp_path: Path) -> None:
    wheel = "tool-1.0-py3-none-any.whl"
    for name in ("main.py", "helper.py", "more.zip"):
        (tmp_path / name).write_bytes(b"")
    with zipfile.ZipFile(tmp_path / wheel, "w") as archive:
        archive.writestr("tool-1.0.dist-info/METADATA", "Name: tool\nVersion: 1.0\n")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    listed = f"{tmp_path / 'helper.py'},file://{tmp_path}/more.zip,{tmp_path / wheel}"
    required = str(tmp_path / "requirements.txt")
    graph = info(stoker, "-py", tmp_path / "main.py", "-pyfs", listed, "-pyreq", required, "a", "b")
    (program,) = graph.vertices
    assert isinstance(program, Program)
    assert (program.script, program.arguments) == ("main.py", ("a", "b"))
    assert program.requirements == "requirements.txt"
    kinds = {artifact.name: artifact.kind for artifact in graph.artifacts}
    assert kinds["helper.py"] is kinds["more.zip"] is ArtifactKind.PYTHON
    assert kinds[wheel] is ArtifactKind.WHEEL


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "-C", "file:///a.jar", "x.py"), "--conf spark.jars="),
        (("run", "-pyexec", "/usr/bin/python3", "x.py"), "spark.pyspark.python"),
        (("run", "-cm", "claim", "-s", "/sp", "x.py"), "stoker savepoint dispose"),
        (("run", "-t", "yarn-session", "x.py"), "name a master with -m URL"),
        (("run", "-t", "local", "x.py"), "leave out both --target and -m"),
        (("list", "-e", "kubernetes-session"), "the only target is remote"),
        (("cancel", "-z", "flink", "clicks"), "high-availability, zookeeper://"),
        (("stop", "-yid", "application_1", "clicks"), "name a master with -m URL"),
        (("run", "-pyclientexec", "/no/python", "x.py"), "/no/python -m stoker.cli.main run"),
        (("run", "-pyfs", "nope.py", "x.py"), "'nope.py' does not exist"),
        (("run",), "Missing argument 'FILE'"),
        (("run", "-p", "none", "x.py"), "--parallelism"),
        (("run", "-p", "day=1", "x.py"), "write --param day=1"),
        (("stop", "-d", "clicks"), "Spark cannot close all windows at once"),
        (("stop", "-type", "other", "clicks"), "canonical"),
        (("savepoint", "lits"), "did you mean 'list'?"),
        (("checkpoint", "verfy", "/x"), "did you mean 'verify'?"),
    ],
)
def test_an_unsupported_option_of_flink_is_refused_with_a_remedy(
    stoker: Stoker, arguments: tuple[str, ...], words: str
) -> None:
    result = stoker(*arguments)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())


def test_pypath_sets_the_module_path_of_a_program(stoker: Stoker, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print(1)\n")
    graph = info(stoker, tmp_path / "main.py", "-pypath", "/opt/a:/opt/b", "--env", "TZ=UTC")
    (program,) = graph.vertices
    assert isinstance(program, Program)
    assert program.environment == {"PYTHONPATH": "/opt/a:/opt/b", "TZ": "UTC"}


def test_a_secret_variable_need_not_stand_on_the_command_line(
    stoker: Stoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine can read the arguments of a process."""
    (tmp_path / "main.py").write_text("print(1)\n")
    monkeypatch.setenv("DB_PASSWORD", "a=b")
    graph = info(stoker, tmp_path / "main.py", "--env", "DB_PASSWORD", "--env", "EMPTY=")
    (program,) = graph.vertices
    assert isinstance(program, Program)
    assert program.environment == {"DB_PASSWORD": "a=b", "EMPTY": ""}


def test_pypath_is_refused_for_a_pipeline_with_a_remedy(stoker: Stoker, pipelines: Path) -> None:
    result = stoker("info", pipelines, "-c", "first", "-pypath", "/opt/a")
    assert result.exit_code == 1, result.output
    assert "--py-file" in result.stderr


def test_pyclientexec_accepts_the_python_that_runs_the_command(
    stoker: Stoker, pipelines: Path
) -> None:
    graph = info(stoker, pipelines, "-c", "first", "-pyclientexec", sys.executable)
    assert graph.name == "first"


@pytest.fixture
def saving(served: ServedMaster) -> InstantSavepoints:
    served.master.dispatcher = InstantSavepoints()
    return served.master.dispatcher


async def test_savepoint_without_a_subcommand_triggers_a_savepoint(
    served: ServedMaster, saving: InstantSavepoints
) -> None:
    for arguments in (
        ("savepoint", RUNNING, "/saved"),
        ("savepoint", "-type", "native", RUNNING, "/saved"),
        ("savepoint", "trigger", RUNNING, "/saved"),
    ):
        result = await served(*arguments)
        assert (result.exit_code, result.stdout) == (0, "/saved/one\n"), result.output
    assert [each.directory for each in saving.requests] == ["/saved"] * 3


async def test_detached_savepoint_and_stop_return_before_the_savepoint_is_complete(
    served: ServedMaster, saving: InstantSavepoints
) -> None:
    for arguments in (
        ("savepoint", "-detached", RUNNING),
        ("stop", "-detached", "--savepointPath", "/saved", RUNNING),
    ):
        result = await served(*arguments)
        assert result.exit_code == 0, result.output
        assert len(result.stdout.strip()) == 32
        assert "is being taken" in result.stderr
    assert [(each.stop, each.directory) for each in saving.requests] == [
        (False, None),
        (True, "/saved"),
    ]


async def test_a_savepoint_is_disposed_of_by_an_option(
    served: ServedMaster, saving: InstantSavepoints
) -> None:
    for arguments in (
        ("-d", "/saved/one"),
        ("-j", "job.jar", "-d", "/saved/two"),
        ("--dispose", "/saved/three", "--jarfile", "job.jar", "-t", "remote"),
    ):
        result = await served("savepoint", *arguments)
        assert result.exit_code == 0, result.output
    assert saving.disposed == ["/saved/one", "/saved/two", "/saved/three"]


async def test_the_full_option_of_a_checkpoint_is_reported_as_without_effect(
    served: ServedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.master.dispatcher.jobs[STREAM] = streaming_details()
    committed = iter([False, True])
    monkeypatch.setattr(checkpoint_handlers, "_POLL_SECONDS", 0)
    monkeypatch.setattr(checkpoint_handlers, "has_committed_since", lambda *_: next(committed))
    result = await served("checkpoint", "-full", STREAM)
    assert result.exit_code == 0, result.output
    assert "--full has no effect" in result.stderr


async def test_a_job_is_cancelled_with_a_savepoint_in_the_default_directory(
    served: ServedMaster, saving: InstantSavepoints
) -> None:
    result = await served("cancel", RUNNING, "--no-wait", "--withSavepoint")
    assert result.exit_code == 0, result.output
    assert [(each.cancel, each.directory) for each in saving.requests] == [(True, None)]

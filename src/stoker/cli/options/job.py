"""The options about one job: its file, its settings, its demands, and what it starts from."""

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from stoker.cli.options.flink import AliasedOption, Decorator, refused_option
from stoker.cli.output import absolute_location, say
from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind, Restore
from stoker.core.ids import JobId, is_hex_id
from stoker.core.job_options import CONTINUE_OUTPUT, LARGEST_PARALLELISM, SHUFFLE_PARTITIONS
from stoker.core.options import read_pair
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.demands import DemandOverrides
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job, parse_params
from stoker.pipeline.spark_settings import doubtful_settings


def allow_non_restored_state_option(reader: str) -> Decorator:
    """An option `allow`; its help calls that which reads the saved state `reader`."""
    return click.option(
        "-n",
        "--allow-non-restored-state",
        "allow",
        cls=AliasedOption,
        aliases=("--allowNonRestoredState",),
        is_flag=True,
        help=f"Leave saved state behind that {reader} has no query for.",
    )


def restore_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about the state that a job starts from, as `start`."""

    @click.option(
        "-s",
        "--from-savepoint",
        "savepoint",
        cls=AliasedOption,
        aliases=("--fromSavepoint",),
        metavar="PATH",
        help="Start from this savepoint or retained checkpoint.",
    )
    @click.option(
        "--no-continue",
        is_flag=True,
        help="Do not continue the output of an earlier run from its last checkpoint.",
    )
    @allow_non_restored_state_option("the job")
    @click.option(
        "-cm",
        "--claimMode",
        "-rm",
        "--restoreMode",
        "claim",
        hidden=True,
        expose_value=False,
        callback=_no_claim,
        metavar="MODE",
    )
    @functools.wraps(command)
    def with_restore(
        *args: Any, savepoint: str | None, allow: bool, no_continue: bool, **kwargs: Any
    ) -> Any:
        path = absolute_location(savepoint)
        restore = None if path is None else Restore(path=path, allow_non_restored_state=allow)
        start = StartingPoint(restore=restore, continues_output=not no_continue)
        return command(*args, start=start, **kwargs)

    return with_restore


def _no_claim(_ctx: click.Context, _option: click.Parameter, mode: str | None) -> None:
    if mode is not None and mode.lower() != "no_claim":
        raise click.UsageError(
            f"--claimMode {mode}: a savepoint stays with its owner, whichever job starts from it; "
            "leave the option out, and remove the savepoint with stoker savepoint dispose"
        )


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """The state that a job starts from."""

    restore: Restore | None = None
    continues_output: bool = True

    def of(self, loaded: LoadedJob) -> LoadedJob:
        graph = loaded.graph
        if self.restore is not None:
            graph = msgspec.structs.replace(graph, restore=self.restore)
        if not self.continues_output:
            configuration = {**graph.configuration, CONTINUE_OUTPUT: "false"}
            graph = msgspec.structs.replace(graph, configuration=configuration)
        return replace(loaded, graph=graph)


def demand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add queue, priority, slots and what each slot must offer, as `demands`."""

    @click.option("--queue", metavar="NAME", help="Queue in which the job waits for its turn.")
    @click.option(
        "--priority", metavar="N", type=int, help="Jobs of higher priority go first; by default 0."
    )
    @click.option("--slots", metavar="N", type=int, help="Most slots that the job uses at once.")
    @click.option(
        "--cores", metavar="N", type=float, help="Cores that each slot of the job must offer."
    )
    @click.option(
        "--memory", metavar="SIZE", help="Memory that each slot of the job must offer, such as 2gb."
    )
    @functools.wraps(command)
    def with_demands(
        *args: Any,
        queue: str | None,
        priority: int | None,
        slots: int | None,
        cores: float | None,
        memory: str | None,
        **kwargs: Any,
    ) -> Any:
        offered = {"cores": cores, "memory": memory}
        demands = DemandOverrides(
            queue=queue,
            priority=priority,
            slots=slots,
            resources={key: value for key, value in offered.items() if value is not None} or None,
        )
        return command(*args, demands=demands, **kwargs)

    return with_demands


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the file for the rows of a query, as `output`."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_checked_output,
        help="Write the rows of the last SELECT to FILE: .json, .csv or .parquet.",
    )(command)


def _checked_output(
    _ctx: click.Context, _option: click.Parameter, path: Path | None
) -> Path | None:
    if path is not None:
        # Imported late: few commands write rows.
        from stoker.cli.rows import check_output  # noqa: PLC0415

        check_output(path)
    return path


AUTO = "auto"
PROGRAM = "program"
PIPELINE = "pipeline"


@dataclass(frozen=True, kw_only=True)
class JobFile:
    target: str
    settings: JobSettings

    def with_spark_settings(self, definitions: Sequence[str]) -> "JobFile":
        """Add the Spark settings that were given with -D; those given with --conf win."""
        pairs = filter(None, map(read_pair, definitions))
        configuration = {key: value for key, value in pairs if key.startswith("spark.")}
        configuration |= self.settings.configuration
        return replace(self, settings=replace(self.settings, configuration=configuration))

    def load(self) -> LoadedJob:
        """Load the job; warn of settings that it may have misspelt."""
        loaded = load_job(self.target, self.settings)
        for warning in doubtful_settings(loaded.graph.configuration):
            say(f"Warning: {warning}")
        return loaded


class Parallelism(click.IntRange):
    """-p N. Flink users may write -p NAME=VALUE for a parameter: the message names --param."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and "=" in value:
            self.fail(
                f"{value} is not a number; for a parameter of the job write --param {value}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class JobCommand(click.Command):
    """A command with FILE and ARGS: an unknown option may be meant for the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            file = next((each for each in args if each.endswith(".py")), None)
            if file is None:
                raise
            raise click.UsageError(
                f"{error.format_message()} Arguments for the file itself follow two dashes: "
                f"{ctx.command_path} {shlex.quote(file)} -- {error.option_name}",
                ctx,
            ) from error


def job_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE, ARGS and the options about the job, as `job_file`."""

    @click.argument("target", metavar="FILE", required=False)
    @click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
    @click.option(
        "-p",
        "--parallelism",
        metavar="N",
        type=Parallelism(min=1, max=LARGEST_PARALLELISM),
        help="Partitions of the job's shuffles: spark.sql.shuffle.partitions.",
    )
    @click.option(
        "-c",
        "--class",
        "entry",
        metavar="NAME",
        help="Which pipeline of a file with several, as in FILE.py:NAME.",
    )
    @click.option(
        "--param",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_params,
        help="Value of a parameter that the job declares. Repeatable.",
    )
    @click.option(
        "--name", metavar="NAME", help="Name of the job, in place of the one in the file."
    )
    @click.option(
        "--job-id", metavar="ID", callback=_job_id, help="Id of the job: 32 hexadecimal digits."
    )
    @click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="Setting of the job's Spark session, such as spark.sql.shuffle.partitions=8.",
    )
    @_file_option("--py-file", "A .py, .zip or .egg that the job's functions import.")
    @_file_option("--wheel", "A wheel that the job's functions need.")
    @_file_option("--file", "Any other file that the job needs.")
    @click.option(
        "--engine",
        type=click.Choice([*(kind.value for kind in EngineKind), AUTO]),
        default=AUTO,
        help="Spark for the job: connect is shared and warm, classic is a driver of its own. "
        "auto takes connect, or classic for a program and where the job needs it.",
    )
    @click.option("--program", "kind", flag_value=PROGRAM, help="FILE is any PySpark script.")
    @click.option("--pipeline", "kind", flag_value=PIPELINE, help="FILE holds a Pipeline.")
    @click.option(
        "--requirements",
        cls=AliasedOption,
        aliases=("-pyreq", "--pyRequirements"),
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What pip must install for a program; kept for later runs.",
    )
    @click.option(
        "--env",
        metavar="NAME[=VALUE]",
        multiple=True,
        callback=_variables,
        help="Environment variable of a program. Repeatable. Without a value it is taken from "
        "this command's environment: everybody on the machine can read a command line.",
    )
    @demand_options
    @click.option("-py", "--python", metavar="FILE", hidden=True)
    @click.option("-pyfs", "--pyFiles", metavar="FILES", hidden=True, callback=_listed_files)
    @click.option("-pypath", "--pyPythonPath", "python_path", metavar="PATHS", hidden=True)
    @click.option(
        *("-pyclientexec", "--pyClientExecutable"),
        metavar="PATH",
        hidden=True,
        expose_value=False,
        callback=_check_interpreter,
    )
    @refused_option(
        *("-C", "--classpath"),
        reason="is for Java: name jars with --conf spark.jars=PATH,PATH",
        metavar="URL",
        multiple=True,
    )
    @refused_option(
        *("-pyexec", "--pyExecutable"),
        reason="is an option of Flink alone: name a Python with --conf spark.pyspark.python=PATH",
        metavar="PATH",
    )
    @refused_option(
        *("-pyarch", "--pyArchives"),
        reason="is an option of Flink alone: name archives with --conf spark.archives=PATH,PATH",
        metavar="PATH",
    )
    @refused_option(
        *("-pym", "--pyModule"),
        reason="is an option of Flink alone: name the file that the job begins with",
        metavar="MODULE",
    )
    @functools.wraps(command)
    def with_job_file(
        *args: Any,
        target: str | None,
        arguments: tuple[str, ...],
        parallelism: int | None,
        entry: str | None,
        param: dict[str, str],
        name: str | None,
        job_id: JobId | None,
        conf: dict[str, str],
        py_file: tuple[Path, ...],
        wheel: tuple[Path, ...],
        file: tuple[Path, ...],
        engine: str,
        kind: str | None,
        requirements: Path | None,
        env: dict[str, str],
        demands: DemandOverrides,
        python: str | None,
        pyfiles: tuple[Path, ...],
        python_path: str | None,
        **kwargs: Any,
    ) -> Any:
        if python is not None:
            # Flink names the file by this option, and everything else is an argument of the file.
            target, arguments = python, arguments if target is None else (target, *arguments)
        if target is None:
            raise click.UsageError("Missing argument 'FILE'.")
        py_file += tuple(path for path in pyfiles if path.suffix != ".whl")
        wheel += tuple(path for path in pyfiles if path.suffix == ".whl")
        import_path = {} if python_path is None else {"PYTHONPATH": python_path}
        settings = JobSettings(
            arguments=arguments,
            params=param,
            configuration=_shuffle_partitions(parallelism) | conf,
            name=name,
            job_id=job_id,
            python_files=_absolute(py_file),
            wheels=_absolute(wheel),
            files=_absolute(file),
            engine=engine,
            is_program=None if kind is None else kind == PROGRAM,
            requirements=requirements,
            environment=import_path | env,
            demands=demands,
            directory=Path.cwd(),
        )
        job_file = JobFile(
            target=target if entry is None else f"{target}:{entry}", settings=settings
        )
        return command(*args, job_file=job_file, **kwargs)

    return with_job_file


def _shuffle_partitions(parallelism: int | None) -> dict[str, str]:
    return {} if parallelism is None else {SHUFFLE_PARTITIONS: str(parallelism)}


def _listed_files(
    _ctx: click.Context, option: click.Parameter, given: str | None
) -> tuple[Path, ...]:
    """Flink's way to list files: `a.py,file:///b.zip`."""
    names = [] if given is None else [name.removeprefix("file://") for name in given.split(",")]
    for name in names:
        if not Path(name).is_file():
            raise click.BadParameter(f"File '{name}' does not exist.", param=option)
    return tuple(map(Path, names))


def _check_interpreter(_ctx: click.Context, _option: click.Parameter, given: str | None) -> None:
    """The Python that runs this command also builds the job, so another one cannot be chosen."""
    if given is None or _runs_this_command(given):
        return
    raise click.UsageError(
        f"--pyClientExecutable {given}: the job is built by the Python that runs this command, "
        f"{sys.executable}; to use the other one, install Stoker there and run: "
        f"{given} -m stoker.cli.main run"
    )


def _runs_this_command(interpreter: str) -> bool:
    """Links are not resolved: a virtual environment's interpreter is a link to a shared one."""
    found = shutil.which(interpreter)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)


def _file_option(flag: str, meaning: str) -> Decorator:
    return click.option(
        flag,
        metavar="FILE",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"{meaning} Repeatable.",
    )


def _absolute(paths: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(path.absolute() for path in paths)


def _params(
    _ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    try:
        return parse_params(given)
    except InvalidInput as error:
        raise click.BadParameter(error.message) from error


def _variables(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Like `_pairs`, but a name alone stands for the variable of this process."""
    whole = []
    for item in given:
        if "=" not in item and item:
            if item not in os.environ:
                raise click.BadParameter(
                    f"there is no variable {item} in this environment; set it, or write "
                    f"{item}=VALUE"
                )
            item = f"{item}={os.environ[item]}"
        whole.append(item)
    return _pairs(ctx, option, tuple(whole))


def _pairs(_ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for item in given:
        pair = read_pair(item)
        if pair is None:
            raise click.BadParameter(f"{item}: write it as KEY=VALUE")
        pairs[pair[0]] = pair[1]
    return pairs


def _job_id(_ctx: click.Context, _option: click.Parameter, given: str | None) -> JobId | None:
    if given is not None and not is_hex_id(given):
        raise click.BadParameter(f"{given}: an id has 32 digits of 0-9 and a-f")
    return None if given is None else JobId(given)

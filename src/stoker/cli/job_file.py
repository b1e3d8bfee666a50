"""The job that a command line names: its file, and what is said about it."""

import functools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from stoker.cli.options.demands import demand_options
from stoker.cli.options.flink import Spelled, refused_option
from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind
from stoker.core.ids import JobId, is_hex_id
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.core.options import read_pair
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.demands import GivenDemands
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job, parse_params

AUTO = "auto"
PROGRAM = "program"
PIPELINE = "pipeline"


@dataclass(frozen=True, kw_only=True)
class JobFile:
    target: str
    settings: JobSettings

    def with_spark_settings(self, definitions: Sequence[str]) -> "JobFile":
        """Spark settings given with -D are settings of the job, too; --conf overrides them."""
        pairs = filter(None, map(read_pair, definitions))
        configuration = {key: value for key, value in pairs if key.startswith("spark.")}
        configuration |= self.settings.configuration
        return replace(self, settings=replace(self.settings, configuration=configuration))

    def load(self) -> LoadedJob:
        return load_job(self.target, self.settings)


class Parallelism(click.IntRange):
    """A number; who means a parameter of the job is told its option."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and "=" in value:
            self.fail(f"{value} is no number; a parameter is given as --param {value}", param, ctx)
        return super().convert(value, param, ctx)


def job_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds FILE, ARGS and the options that say something about the job, as `job_file`."""

    @click.argument("target", metavar="FILE", required=False)
    @click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
    @click.option(
        "-p",
        "--parallelism",
        metavar="N",
        type=Parallelism(min=1, max=32768),
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
    @click.option("--job-id", metavar="ID", callback=_job_id, help="32 hexadecimal digits.")
    @click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="Setting of the job's Spark session, such as spark.sql.shuffle.partitions=8.",
    )
    @_file_option("--py-file", "A .py, .zip or .egg that the job's functions import.")
    @_file_option("--wheel", "A wheel that the job's functions need.")
    @_file_option("--file", "Any other file that goes along with the job.")
    @click.option(
        "--engine",
        type=click.Choice([*(kind.value for kind in EngineKind), AUTO]),
        default=AUTO,
        help="Spark for the job: connect is shared and warm, classic a driver of its own. "
        "auto takes connect, and classic for programs and for what needs it.",
    )
    @click.option("--program", "kind", flag_value=PROGRAM, help="FILE is any PySpark script.")
    @click.option("--pipeline", "kind", flag_value=PIPELINE, help="FILE holds a Pipeline.")
    @click.option(
        "--requirements",
        cls=Spelled,
        also=("-pyreq", "--pyRequirements"),
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What pip must install for a program; kept for later runs.",
    )
    @click.option(
        "--env",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_pairs,
        help="Environment variable of a program. Repeatable.",
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
        reason="is of Flink: name a Python with --conf spark.pyspark.python=PATH",
        metavar="PATH",
    )
    @refused_option(
        *("-pyarch", "--pyArchives"),
        reason="is of Flink: name archives with --conf spark.archives=PATH,PATH",
        metavar="PATH",
    )
    @refused_option(
        *("-pym", "--pyModule"),
        reason="is of Flink: name the file that the job begins with",
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
        demands: GivenDemands,
        python: str | None,
        pyfiles: tuple[Path, ...],
        python_path: str | None,
        **kwargs: Any,
    ) -> Any:
        if python is not None:
            # As Flink has it: the file is in the option, and all that follows are arguments.
            target, arguments = python, arguments if target is None else (target, *arguments)
        if target is None:
            raise click.UsageError("Missing argument 'FILE'.")
        py_file += tuple(path for path in pyfiles if path.suffix != ".whl")
        wheel += tuple(path for path in pyfiles if path.suffix == ".whl")
        found_in = {} if python_path is None else {"PYTHONPATH": python_path}
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
            environment=found_in | env,
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
    """`a.py,file:///b.zip`, as Flink has it."""
    names = [] if given is None else [name.removeprefix("file://") for name in given.split(",")]
    for name in names:
        if not Path(name).is_file():
            raise click.BadParameter(f"File '{name}' does not exist.", param=option)
    return tuple(map(Path, names))


def _check_interpreter(_ctx: click.Context, _option: click.Parameter, given: str | None) -> None:
    """A pipeline is made by the Python that runs this command."""
    if given is None or _is_running(given):
        return
    raise click.UsageError(
        f"--pyClientExecutable {given} is another Python than the one that runs this command, "
        f"{sys.executable}, which makes the job: install Stoker there and call it as "
        f"{given} -m stoker.cli.main run"
    )


def _is_running(interpreter: str) -> bool:
    """Compared as they stand: an environment's interpreter is often a link to another one's."""
    found = shutil.which(interpreter)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)


def _file_option(flag: str, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
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


def _pairs(_ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for item in given:
        pair = read_pair(item)
        if pair is None:
            raise click.BadParameter(f"{item}: write it as key=value")
        pairs[pair[0]] = pair[1]
    return pairs


def _job_id(_ctx: click.Context, _option: click.Parameter, given: str | None) -> JobId | None:
    if given is not None and not is_hex_id(given):
        raise click.BadParameter(f"{given}: an id has 32 digits of 0-9 and a-f")
    return None if given is None else JobId(given)

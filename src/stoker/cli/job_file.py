"""The job that a command line names: its file, and what is said about it."""

import ast
import functools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from stoker.cli.options.demands import demand_options
from stoker.cli.options.flink import Spelled, refused_option
from stoker.core.errors import InvalidInput
from stoker.core.graph import EngineKind
from stoker.core.ids import JobId, is_hex_id
from stoker.core.parallelism import SHUFFLE_PARTITIONS
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.engine_choice import AUTO, with_engine
from stoker.pipeline.load import load_job, parse_params, read_job_file
from stoker.pipeline.local_paths import with_absolute_paths
from stoker.pipeline.program_job import ProgramDraft, load_program
from stoker.pipeline.program_scan import is_pipeline, parse
from stoker.pipeline.resources import GivenDemands, with_demands

PROGRAM = "program"
PIPELINE = "pipeline"


@dataclass(frozen=True, kw_only=True)
class JobFile:
    target: str
    arguments: tuple[str, ...] = ()
    params: dict[str, str]
    configuration: dict[str, str]
    name: str | None = None
    job_id: JobId | None = None
    python_files: tuple[Path, ...] = ()
    wheels: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    engine: str = AUTO
    kind: str | None = None
    """program or pipeline, when the user says so."""
    requirements: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    demands: GivenDemands = field(default_factory=GivenDemands)
    python_path: str | None = None
    """Where a program's Spark workers look for modules, beside their own places."""

    def with_settings(self, definitions: Sequence[str]) -> "JobFile":
        """Settings of Spark among those of -D are the job's as well; --conf goes before."""
        pairs = (each.partition("=") for each in definitions)
        settings = {key.strip(): value for key, _, value in pairs if key.startswith("spark.")}
        return replace(self, configuration=settings | self.configuration)

    def load(self) -> LoadedJob:
        """The job with every relative path of its sources and sinks made absolute."""
        loaded = self._load()
        return replace(loaded, graph=with_demands(loaded.graph, **self.demands))

    def _load(self) -> LoadedJob:
        file = Path(self.target)
        tree: ast.Module | None = None
        if file.suffix == ".py" and file.is_file() and self.kind != PIPELINE:
            tree = parse(read_job_file(file), file)
            if self.kind == PROGRAM or not is_pipeline(tree):
                return load_program(self._program(file, tree))
        if self.python_path is not None:
            raise InvalidInput(
                f"{file.name}: --pyPythonPath is for programs, and this is none; name what its "
                "functions import with --py-file, and it goes along with the job"
            )
        if self.requirements is not None or self.environment:
            raise InvalidInput(
                f"{file.name}: --requirements and --env are for programs, and this is none"
            )
        return with_engine(self._load_pipeline(), tree, self.engine)

    def _program(self, file: Path, tree: ast.Module) -> ProgramDraft:
        if self.params:
            raise InvalidInput(
                f"{file.name}: a program has no parameters, so it cannot use --param "
                f"{next(iter(self.params))}; write its arguments after its name"
            )
        found = {} if self.python_path is None else {"PYTHONPATH": self.python_path}
        return ProgramDraft(
            script=file,
            tree=tree,
            arguments=self.arguments,
            environment=found | self.environment,
            requirements=self.requirements,
            directory=Path.cwd(),
            engine=self.engine,
            name=self.name,
            job_id=self.job_id,
            configuration=self.configuration,
            python_files=self.python_files,
            wheels=self.wheels,
            files=self.files,
        )

    def _load_pipeline(self) -> LoadedJob:
        loaded = load_job(
            self.target,
            params=self.params,
            arguments=self.arguments,
            job_id=self.job_id,
            name=self.name,
            configuration=self.configuration,
            python_files=self.python_files,
            wheels=self.wheels,
            files=self.files,
        )
        return replace(loaded, graph=with_absolute_paths(loaded.graph, Path.cwd()))


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
        job_file = JobFile(
            target=target if entry is None else f"{target}:{entry}",
            arguments=arguments,
            params=param,
            configuration=_divided(parallelism) | conf,
            name=name,
            job_id=job_id,
            python_files=_absolute(py_file),
            wheels=_absolute(wheel),
            files=_absolute(file),
            engine=engine,
            kind=kind,
            requirements=requirements,
            environment=env,
            demands=demands,
            python_path=python_path,
        )
        return command(*args, job_file=job_file, **kwargs)

    return with_job_file


def _divided(parallelism: int | None) -> dict[str, str]:
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
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{item}: write it as key=value")
        pairs[key.strip()] = value
    return pairs


def _job_id(_ctx: click.Context, _option: click.Parameter, given: str | None) -> JobId | None:
    if given is not None and not is_hex_id(given):
        raise click.BadParameter(f"{given}: an id has 32 digits of 0-9 and a-f")
    return None if given is None else JobId(given)

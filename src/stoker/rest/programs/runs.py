"""Compile an uploaded program to a job graph, in a process of its own (`compiler.py`).

That process runs code of the user. So it gets no environment variables that may be secret, its
memory and time are limited, and it is killed with everything that it has started.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from stoker.core.errors import InvalidInput, StorageUnavailable
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.core.values import decode_json
from stoker.pipeline.demands import DemandOverrides, with_demands
from stoker.rest.options import RestOptions
from stoker.rest.programs.compiler import ANSWER, GRAPH, REQUEST, CompileAnswer, CompileRequest
from stoker.rest.programs.store import ProgramStore, StoredProgram
from stoker.rest.requests.uploads import make_temporary_directory

_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "TZ")
"""Environment variables that the compiler gets; others may be secrets of the master."""
_OUTPUT_BYTES = 2000
"""How much of the end of the compiler's output an error message quotes."""


@dataclass(frozen=True, kw_only=True)
class ProgramArguments:
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    parallelism: int | None = None
    configuration: dict[str, str]
    job_id: JobId | None = None
    restore: Restore | None = None
    demands: DemandOverrides = field(default_factory=DemandOverrides)

    def settings(self) -> dict[str, str]:
        """Settings of the Spark session; parallelism is the number of its shuffle partitions."""
        if self.parallelism is None:
            return self.configuration
        return {SHUFFLE_PARTITIONS: str(self.parallelism)} | self.configuration


@dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    graph: JobGraph
    files: dict[str, Path]
    """Path of each artifact by its SHA-256."""


@asynccontextmanager
async def compile_program(
    programs: ProgramStore,
    program: StoredProgram,
    arguments: ProgramArguments,
    options: RestOptions,
    ids: Ids,
) -> AsyncIterator[CompiledProgram]:
    """Compile a program. The files of the result are deleted when the context ends."""
    try:
        directory = make_temporary_directory("stoker-program-", options.upload_directory)
    except OSError as error:
        place = options.upload_directory or tempfile.gettempdir()
        raise StorageUnavailable(
            f"a program cannot be loaded: no directory can be made in {place}: {error.strerror}; "
            "correct this, or set web.upload.dir to another directory"
        ) from error
    try:
        await programs.fetch(program, directory / program.name)
        request = CompileRequest(
            file=program.name,
            entry=arguments.entry,
            arguments=arguments.arguments,
            configuration=arguments.settings(),
            job_id=arguments.job_id or ids.job(),
            memory_bytes=int(options.program_memory),
            parent=os.getpid(),
        )
        (directory / REQUEST).write_bytes(msgspec.json.encode(request))
        await _run(directory, program, options.program_timeout.total_seconds())
        found = _result(directory, program)
        yield replace(found, graph=with_demands(found.graph, **arguments.demands))
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _run(directory: Path, program: StoredProgram, seconds: float) -> None:
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    with (directory / "output").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stoker.rest.programs.compiler",
            str(directory),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment | {"HOME": str(directory), "TMPDIR": str(directory)},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            raise InvalidInput(
                f"{program.name} did not describe its job within {seconds:g} s; do no work at the "
                "top level of the file, or raise web.program.timeout if it needs longer"
            ) from None
        finally:
            # The program may have started processes of its own: kill the whole group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()


def _result(directory: Path, program: StoredProgram) -> CompiledProgram:
    try:
        answer = decode_json((directory / ANSWER).read_bytes(), CompileAnswer)
        if answer.error is None:
            graph = decode_json((directory / GRAPH).read_bytes(), JobGraph)
            files = {sha256: Path(path) for sha256, path in answer.files.items()}
            return CompiledProgram(graph=graph, files=files)
    except (OSError, msgspec.DecodeError):
        output = _read_tail(directory / "output")
        raise InvalidInput(
            f"{program.name} ended before it had described its job"
            + (f": {output}" if output else "")
        ) from None
    # The temporary directory of the master means nothing to the reader of the message.
    reason = answer.error.replace(f"{directory}/", "")
    raise InvalidInput(f"{program.name} cannot be run: {reason}")


def _read_tail(output: Path) -> str:
    try:
        text = output.read_bytes()[-_OUTPUT_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    return text.replace(f"{output.parent}/", "").strip()

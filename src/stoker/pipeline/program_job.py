"""A job of one script that knows nothing of Stoker."""

import ast
import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.checks.validation import faults_of
from stoker.core.errors import InvalidInput, InvalidJobGraph
from stoker.core.graph import EngineKind, JobGraph, Program
from stoker.core.ids import Ids, JobId
from stoker.pipeline.artifacts import describe_files
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.drafts import JobDraft
from stoker.pipeline.local_imports import local_modules_of, zip_package
from stoker.pipeline.program_scan import choose_engine

PROGRAM_VERTEX = "program"


@dataclass(frozen=True, kw_only=True)
class ProgramDraft:
    script: Path
    tree: ast.Module
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: Path | None = None
    directory: Path | None = None
    engine: str = "auto"
    name: str | None = None
    job_id: JobId | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    python_files: Sequence[Path] = ()
    wheels: Sequence[Path] = ()
    files: Sequence[Path] = ()


def load_program(draft: ProgramDraft) -> LoadedJob:
    """Raises InvalidJobGraph with all faults. Nothing of the script is run."""
    choice = choose_engine(draft.engine, draft.tree, draft.configuration, program=True)
    if choice.engine is EngineKind.CONNECT and draft.requirements is not None:
        raise InvalidInput(
            "--requirements needs a driver of the job's own: leave --engine connect out"
        )
    requirements = () if draft.requirements is None else (draft.requirements,)
    files = JobDraft(
        name=draft.name or draft.script.stem,
        vertices=(),
        python_files=(*draft.python_files, *_brought(draft)),
        wheels=tuple(draft.wheels),
        files=(draft.script, *requirements, *draft.files),
    )
    described = describe_files(files, Path.cwd())
    graph = JobGraph(
        job_id=draft.job_id if draft.job_id is not None else Ids().job(),
        name=files.name,
        vertices=(_vertex(draft),),
        configuration=dict(draft.configuration),
        artifacts=tuple(artifact for artifact, _ in described.artifacts),
        engine=choice.engine,
        engine_reason=choice.reason,
    )
    found = [*described.faults, *faults_of(graph)]
    if found:
        raise InvalidJobGraph([str(fault) for fault in dict.fromkeys(found)])
    return LoadedJob(
        graph=graph, files={artifact.name: path for artifact, path in described.artifacts}
    )


def _vertex(draft: ProgramDraft) -> Program:
    return Program(
        name=PROGRAM_VERTEX,
        script=draft.script.name,
        arguments=tuple(draft.arguments),
        environment=dict(draft.environment),
        requirements=draft.requirements.name if draft.requirements is not None else None,
        directory=str(draft.directory) if draft.directory is not None else None,
    )


def _brought(draft: ProgramDraft) -> list[Path]:
    """Modules beside the script, which `python script.py` would have found there."""
    given = {path.name for path in draft.python_files}
    brought = []
    for path in local_modules_of(draft.script, draft.tree):
        if path.name in given or f"{path.name}.zip" in given:
            continue
        brought.append(zip_package(path, _passing_directory()) if path.is_dir() else path)
    return brought


def _passing_directory() -> Path:
    """Gone when this process, the client's, ends: by then the archive is uploaded."""
    directory = Path(tempfile.mkdtemp(prefix="stoker-program-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory

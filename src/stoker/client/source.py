"""What a program may hand in as a job, and what is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.core.errors import InvalidInput
from stoker.core.graph import JobGraph

if TYPE_CHECKING:
    from stoker.pipeline import Pipeline
    from stoker.pipeline.building import LoadedJob
    from stoker.pipeline.resources import GivenDemands


def load(
    job: Any,
    params: Mapping[str, Any],
    arguments: Sequence[str],
    name: str | None,
    configuration: Mapping[str, str],
    demands: "GivenDemands | None" = None,
) -> "LoadedJob":
    """The authoring API is large: only those who submit wait for its import."""
    from stoker.pipeline import Pipeline  # noqa: PLC0415
    from stoker.pipeline.building import LoadedJob  # noqa: PLC0415
    from stoker.pipeline.local_paths import with_absolute_paths  # noqa: PLC0415
    from stoker.pipeline.resources import with_demands  # noqa: PLC0415

    if isinstance(job, JobGraph):
        return LoadedJob(graph=with_demands(job, **(demands or {})))
    texts = {key: str(value) for key, value in params.items()}
    if isinstance(job, Pipeline):
        loaded = _from_pipeline(job, texts, name, configuration)
    elif isinstance(job, str | Path):
        loaded = _from_file(job, texts, arguments, name, configuration)
    else:
        raise InvalidInput(
            f"a {type(job).__name__} is no job: give a Pipeline, a JobGraph, or the path of a "
            "Python, YAML or SQL file"
        )
    graph = with_absolute_paths(with_demands(loaded.graph, **(demands or {})), Path.cwd())
    return replace(loaded, graph=graph)


def _from_pipeline(
    pipeline: "Pipeline",
    params: dict[str, str],
    name: str | None,
    configuration: Mapping[str, str],
) -> "LoadedJob":
    from stoker.pipeline.building import assemble  # noqa: PLC0415

    draft = pipeline.draft()
    draft = replace(
        draft, name=name or draft.name, configuration={**draft.configuration, **configuration}
    )
    return assemble(draft, job_id=None, params=params, base_directory=Path.cwd())


def _from_file(
    job: str | Path,
    params: dict[str, str],
    arguments: Sequence[str],
    name: str | None,
    configuration: Mapping[str, str],
) -> "LoadedJob":
    from stoker.pipeline.engine_choice import with_engine  # noqa: PLC0415
    from stoker.pipeline.load import load_job, read_job_file  # noqa: PLC0415
    from stoker.pipeline.program_job import ProgramDraft, load_program  # noqa: PLC0415
    from stoker.pipeline.program_scan import is_pipeline, parse  # noqa: PLC0415

    file, tree = Path(job), None
    if file.suffix == ".py" and file.is_file():
        tree = parse(read_job_file(file), file)
        if not is_pipeline(tree):
            return load_program(
                ProgramDraft(
                    script=file,
                    tree=tree,
                    arguments=tuple(arguments),
                    directory=Path.cwd(),
                    name=name,
                    configuration=configuration,
                )
            )
    loaded = load_job(
        str(job), params=params, arguments=arguments, name=name, configuration=configuration
    )
    return with_engine(loaded, tree)


def load_sql(
    script: str,
    params: Mapping[str, Any],
    name: str,
    configuration: Mapping[str, str],
    demands: "GivenDemands | None" = None,
) -> "LoadedJob":
    """Of statements that are in no file; relative paths are meant from here."""
    from stoker.pipeline.building import assemble  # noqa: PLC0415
    from stoker.pipeline.local_paths import with_absolute_paths  # noqa: PLC0415
    from stoker.pipeline.resources import with_demands  # noqa: PLC0415
    from stoker.pipeline.sql_script import script_draft  # noqa: PLC0415

    draft = script_draft(script, file="the script", default_name=name)
    draft = replace(draft, configuration={**draft.configuration, **configuration})
    texts = {key: str(value) for key, value in params.items()}
    loaded = assemble(draft, job_id=None, params=texts, base_directory=Path.cwd())
    graph = with_absolute_paths(with_demands(loaded.graph, **(demands or {})), Path.cwd())
    return replace(loaded, graph=graph)


def files_of(loaded: "LoadedJob") -> dict[str, Path]:
    """What is uploaded, by checksum."""
    contents = {artifact.name: artifact.sha256 for artifact in loaded.graph.artifacts}
    return {contents[name]: path for name, path in loaded.files.items()}

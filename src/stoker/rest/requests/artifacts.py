"""Which uploaded file is which artifact of a graph: decided by content alone."""

from collections.abc import Sequence

from stoker.core.errors import CorruptContent, InvalidInput
from stoker.core.graph import Artifact, JobGraph
from stoker.rest.requests.uploads import UploadedFile


def match_artifacts(
    graph: JobGraph, files: Sequence[UploadedFile]
) -> tuple[tuple[Artifact, UploadedFile], ...]:
    """Each artifact with its file; two artifacts of the same content share one."""
    by_content = {(file.sha256, file.size): file for file in files}
    wanted = {(artifact.sha256, artifact.size) for artifact in graph.artifacts}
    missing = [
        artifact
        for artifact in graph.artifacts
        if (artifact.sha256, artifact.size) not in by_content
    ]
    surplus = [file for file in files if (file.sha256, file.size) not in wanted]
    if missing and surplus:
        raise CorruptContent(
            f"the files do not match the graph: expected {_artifacts(missing)}, but received "
            f"{_files(surplus)}; a file was damaged on its way or changed since: submit again"
        )
    if missing:
        raise InvalidInput(f"files of the graph are not in the request: {_artifacts(missing)}")
    if surplus:
        raise InvalidInput(f"the request has files that the graph does not name: {_files(surplus)}")
    if len(files) > len(by_content):
        raise InvalidInput("the request has the same file twice")
    return tuple(
        (artifact, by_content[artifact.sha256, artifact.size]) for artifact in graph.artifacts
    )


def _artifacts(artifacts: Sequence[Artifact]) -> str:
    return ", ".join(
        f"{each.name} ({each.size} bytes, sha256 {each.sha256[:12]})" for each in artifacts
    )


def _files(files: Sequence[UploadedFile]) -> str:
    return ", ".join(
        f"{each.label!r} ({each.size} bytes, sha256 {each.sha256[:12]})" for each in files
    )

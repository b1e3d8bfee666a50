"""The multipart body of a submission, produced in pieces so that no file is held in memory."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from stoker.api.jobs import ARTIFACT_PART, GRAPH_PART
from stoker.core.errors import InvalidInput
from stoker.core.graph import JobGraph

_PIECE_BYTES = 1024 * 1024


class SubmissionBody:
    """A job graph and its files. Its length is known in advance, and it can be sent repeatedly."""

    def __init__(self, graph: JobGraph, artifacts: Mapping[str, Path], boundary: str) -> None:
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._parts: list[bytes | Path] = [
            _head(boundary, f'name="{GRAPH_PART}"', "application/json"),
            msgspec.json.encode(graph),
            b"\r\n",
        ]
        for number, path in enumerate(_files(graph, artifacts)):
            disposition = f'name="{ARTIFACT_PART}"; filename="{number}"'
            self._parts += [_head(boundary, disposition, "application/octet-stream"), path, b"\r\n"]
        self._parts.append(f"--{boundary}--\r\n".encode())
        self.length = sum(
            part.stat().st_size if isinstance(part, Path) else len(part) for part in self._parts
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": self.content_type, "Content-Length": str(self.length)}

    def pieces(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            with part.open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece


def new_boundary() -> str:
    return f"stoker-{os.urandom(16).hex()}"


def _head(boundary: str, disposition: str, content_type: str) -> bytes:
    return (
        f"--{boundary}\r\n"
        f"Content-Disposition: form-data; {disposition}\r\n"
        f"Content-Type: {content_type}\r\n\r\n"
    ).encode()


def _files(graph: JobGraph, artifacts: Mapping[str, Path]) -> list[Path]:
    """One local file for each content that the graph names."""
    paths: dict[str, Path] = {}
    for artifact in graph.artifacts:
        path = artifacts.get(artifact.sha256)
        if path is None:
            raise InvalidInput(f"no file was given for artifact {artifact.name} of the job")
        if not path.is_file():
            raise InvalidInput(f"artifact {artifact.name}: there is no file {path}")
        if path.stat().st_size != artifact.size:
            raise InvalidInput(
                f"artifact {artifact.name}: {path} has {path.stat().st_size} bytes, but had "
                f"{artifact.size} when the job was made; submit again"
            )
        paths[artifact.sha256] = path
    return list(paths.values())

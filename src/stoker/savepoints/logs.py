"""Parse the small text files of a checkpoint: offsets, commits, operators, snapshots."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.core.errors import CorruptContent
from stoker.core.job_options import SHUFFLE_PARTITIONS

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MAX_SNAPSHOT_BYTES = 512 * 1024 * 1024
"""A snapshot lists its files; the files themselves are stored beside it."""


@dataclass(frozen=True, kw_only=True)
class Offsets:
    """What a batch reads, and the settings fixed by the query's first batch."""

    sources: tuple[str | None, ...]
    watermark_ms: int
    configuration: dict[str, str]

    @property
    def shuffle_partitions(self) -> int | None:
        text = self.configuration.get(SHUFFLE_PARTITIONS, "")
        return int(text) if text.isdecimal() else None

    @property
    def state_provider(self) -> str | None:
        name = self.configuration.get(PROVIDER)
        return None if name is None else name.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class Operator:
    id: int
    name: str
    partitions: int
    stores: tuple[str, ...]


def parse_offsets(content: bytes, path: str) -> Offsets:
    lines = _lines(content, path)
    if len(lines) < 2:
        raise CorruptContent(f"{path} is cut off: it names no settings and no source", path=path)
    facts = _json(lines[1], path)
    return Offsets(
        # A dash stands for a source that has not been read yet.
        sources=tuple(None if line == "-" else line for line in lines[2:]),
        watermark_ms=int(facts.get("batchWatermarkMs", 0)),
        configuration={str(key): str(value) for key, value in facts.get("conf", {}).items()},
    )


def check_commit(content: bytes, path: str) -> None:
    lines = _lines(content, path)
    if len(lines) < 2:
        raise CorruptContent(f"{path} is cut off after its first line", path=path)
    _json(lines[1], path)


def parse_query_id(content: bytes, path: str) -> str:
    facts = _json(content.decode(errors="replace"), path)
    if "id" not in facts:
        raise CorruptContent(f"{path} holds no query id", path=path)
    return str(facts["id"])


def parse_operator(content: bytes, path: str) -> Operator:
    lines = _lines(content, path)
    facts = _json("\n".join(lines[1:]), path)
    try:
        info, stores = facts["operatorInfo"], facts["stateStoreInfo"]
        return Operator(
            id=int(info["operatorId"]),
            name=str(info["operatorName"]),
            partitions=max((int(store["numPartitions"]) for store in stores), default=0),
            stores=tuple(str(store["storeName"]) for store in stores),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptContent(f"{path} does not describe an operator: {error}", path=path) from error


def moved_operator(content: bytes, path: str, place: Callable[[str], str]) -> bytes:
    """The same content with new paths of the state's schemas, which Spark writes as absolute.

    `place` maps a path inside the checkpoint to its absolute location.
    """
    head, _, text = content.decode(errors="replace").partition("\n")
    facts = _json(text, path)
    for store in facts.get("stateStoreInfo", ()):
        known = store.get("stateSchemaFilePaths", ())
        if known:
            store["stateSchemaFilePaths"] = [place(_inside(each)) for each in known]
    return f"{head}\n{json.dumps(facts, separators=(',', ':'))}".encode()


def _inside(schema: str) -> str:
    """The path from its last `state/` on, such as `state/0/_stateSchema/default/0_1a`."""
    parts = schema.split("/")
    return "/".join(parts[len(parts) - 1 - parts[::-1].index("state") :])


def parts_of_snapshot(content: bytes, path: str) -> dict[str, int]:
    """Names and sizes of the SST files of a RocksDB snapshot.

    The job can write to its checkpoint, so an archive that unpacks to very much is refused.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > _MAX_SNAPSHOT_BYTES:
                raise CorruptContent(
                    f"{path} is no snapshot: it would unpack to {unpacked} bytes", path=path
                )
            damaged = archive.testzip()
            text = archive.read("metadata").decode()
    except (zipfile.BadZipFile, KeyError, EOFError, UnicodeDecodeError) as error:
        raise CorruptContent(f"{path} is not a complete snapshot: {error}", path=path) from error
    if damaged is not None:
        raise CorruptContent(f"{path} is damaged at {damaged}", path=path)
    facts = _json(text.partition("\n")[2], path)
    return {str(file["dfsSstFileName"]): int(file["sizeBytes"]) for file in facts["sstFiles"]}


def _lines(content: bytes, path: str) -> list[str]:
    if not content:
        raise CorruptContent(f"{path} is empty", path=path)
    lines = content.decode(errors="replace").splitlines()
    if not lines[0].startswith("v"):
        raise CorruptContent(f"{path} does not begin with a version: {lines[0][:40]!r}", path=path)
    return lines


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise CorruptContent(f"{path} is incomplete: {error}", path=path) from error
    if not isinstance(facts, dict):
        raise CorruptContent(f"{path} does not hold a JSON object", path=path)
    return facts

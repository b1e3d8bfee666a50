"""Folder nodes: created before a key needs them, removed after the last key below them.

The coordinator contract knows no folders, but ZooKeeper creates a node only below an existing one,
and would let a key have keys below it. This module makes up for both differences.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError

from stoker.core.errors import InvalidInput, KeyExists, NoSuchKey, VersionMismatch
from stoker.ha.coordinator import Create, Delete, Op
from stoker.ha.transaction import Record, ancestors, plan
from stoker.ha.zookeeper.link import Link, owner_text
from stoker.ha.zookeeper.location import Paths, is_folder, name_of


class _Snapshot:
    """Records that a transaction concerns, as read before it."""

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = records

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def keys_below(self, key: str) -> Iterable[str]:
        return [other for other in self._records if other.startswith(f"{key}/")]


class Folders:
    """The folders as one session sees them. Raises kazoo's errors."""

    def __init__(self, link: Link, paths: Paths) -> None:
        self._link = link
        self._paths = paths

    async def make_root(self) -> None:
        # A client without permission to create is refused even if the node exists.
        if await self._stat(self._paths.root) is not None:
            return
        parts = self._paths.root.strip("/").split("/")
        await self._make(["/" + "/".join(parts[:end]) for end in range(1, len(parts) + 1)])

    async def find_open_nodes(self) -> list[str]:
        """The root and the folders directly below it that anybody may use, whoever made them."""
        root = self._paths.root
        nodes = await self._link.call(lambda client: client.get_children_async(root))
        paths = [root, *(f"{root}/{node}" for node in sorted(nodes) if is_folder(node))]
        found = await asyncio.gather(*(self._is_open(path) for path in paths))
        return [path for path, is_open in zip(paths, found, strict=True) if is_open]

    async def _is_open(self, path: str) -> bool:
        try:
            acls, _ = await self._link.call(lambda client: client.get_acls_async(path))
        except NoNodeError:
            return False
        return any(acl.id.scheme == "world" and acl.perms for acl in acls)

    async def check_places(self, ops: Sequence[Op]) -> None:
        """InvalidInput when a key would be above or below another key.

        ZooKeeper itself cannot refuse that, so check before the write. Two sessions that write
        such keys at the same moment may both succeed, which harms nothing else.
        """
        if not any(isinstance(op, Create) for op in ops):
            return
        # First consider only the operations that create and delete: that is cheap, and a place is
        # rarely wrong.
        changes = [op for op in ops if isinstance(op, Create | Delete)]
        try:
            _check_places(changes, await self._take_snapshot(changes))
        except InvalidInput:
            # Check exactly: the read may have been old, or the servers may refuse an earlier
            # operation for another reason.
            await self._link.call(lambda client: client.sync_async(self._paths.root))
            _check_places(ops, await self._take_snapshot(ops, whole=True))

    async def make_for(self, ops: Sequence[Op]) -> None:
        """Create every folder that the transaction needs."""
        creates = [op for op in ops if isinstance(op, Create)]
        wanted = {folder for op in creates for folder in self._paths.folders_above(op.key)}
        await self.make_root()
        # Shorter paths first: they contain the longer ones.
        await self._make(sorted(wanted, key=len))

    def prune(self, ops: Sequence[Op]) -> None:
        """Remove empty folders of deleted keys, but not the outermost: these are needed again."""
        for op in ops:
            if isinstance(op, Delete):
                for folder in reversed(self._paths.folders_above(op.key)[1:]):
                    self._link.send(partial(_delete_async, folder))

    async def _make(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                await self._link.call(partial(_create_async, path))
            except NodeExistsError:
                continue

    async def _take_snapshot(self, ops: Sequence[Op], *, whole: bool = False) -> _Snapshot:
        """Read above and below the created keys; with `whole`, the keys of all operations."""
        created = {op.key for op in ops if isinstance(op, Create)}
        about = {op.key for op in ops if whole or isinstance(op, Delete)}
        above = {ancestor for key in created for ancestor in ancestors(key)}
        records, below = await asyncio.gather(
            self._records(about | above),
            asyncio.gather(*(self._keys_below(key) for key in sorted(created))),
        )
        inner = await self._records({key for found in below for key in found})
        return _Snapshot(records | inner)

    async def _records(self, keys: Iterable[str]) -> dict[str, Record]:
        wanted = sorted(keys)
        stats = await asyncio.gather(*(self._stat(self._paths.of_key(key)) for key in wanted))
        return {
            key: record_of(stat)
            for key, stat in zip(wanted, stats, strict=True)
            if stat is not None
        }

    async def _keys_below(self, key: str) -> list[str]:
        folder = self._paths.of_folder(key)
        try:
            nodes = await self._link.call(lambda client: client.get_children_async(folder))
        except NoNodeError:
            return []
        keys: list[str] = []
        for node in nodes:
            inner = f"{key}/{name_of(node)}"
            keys += await self._keys_below(inner) if is_folder(node) else [inner]
        return keys

    async def _stat(self, path: str) -> Any:
        return await self._link.call(lambda client: client.exists_async(path))


def _create_async(path: str, client: Any) -> Any:
    return client.create_async(path, b"")


def _delete_async(path: str, client: Any) -> Any:
    return client.delete_async(path)


def record_of(stat: Any) -> Record:
    """The record without its value, which does not matter here."""
    owner = owner_text(stat.ephemeralOwner) if stat.ephemeralOwner else None
    return Record(value=b"", version=stat.version, owner=owner, created=stat.czxid)


def _check_places(ops: Sequence[Op], snapshot: _Snapshot) -> None:
    try:
        plan(ops, snapshot, session="")
    except (KeyExists, NoSuchKey, VersionMismatch):
        # The servers decide that, with the current state.
        return

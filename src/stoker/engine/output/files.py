"""Files of outputs, on this machine or on a remote file system."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from stoker.core.spark_paths import local_path


class OutputFiles(Protocol):
    """The files of one file system. Paths are in Spark's form.

    A folder that does not exist counts as empty.
    """

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...

    def sizes(self, path: str) -> dict[str, int]:
        """Sizes of all files below the folder, by relative path."""
        ...

    def folders(self, path: str) -> list[str]:
        """Names of the folders directly inside the folder."""
        ...

    def open(self, path: str) -> BinaryIO: ...

    def move(self, source: str, target: str) -> None:
        """Move one file, and create the folders of its target; an existing target is replaced.

        Fails if the source does not exist.
        """
        ...

    def move_folder(self, source: str, target: str) -> bool:
        """Move a folder atomically; False if the file system cannot do that."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None: ...


def files_of(path: str) -> OutputFiles | None:
    """The files on the file system of this path; None if this machine cannot reach it.

    A relative path is relative to the Spark server's directory, and a scheme may need an fsspec
    driver that is not installed.
    """
    if (local := local_path(path)) is not None:
        return LocalFiles() if local.is_absolute() else None
    # Drivers are optional and slow to import; local outputs never need them.
    import fsspec  # noqa: PLC0415

    try:
        filesystem, _ = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError, OSError):
        return None
    return RemoteFiles(filesystem)


class LocalFiles:
    def exists(self, path: str) -> bool:
        return os.path.lexists(_local(path))

    def is_folder(self, path: str) -> bool:
        return _local(path).is_dir()

    def sizes(self, path: str) -> dict[str, int]:
        folder = _local(path)
        return {
            file.relative_to(folder).as_posix(): file.stat().st_size
            for parent, _, names in os.walk(folder)
            for file in (Path(parent) / name for name in names)
        }

    def folders(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in _local(path).iterdir() if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, path: str) -> BinaryIO:
        return _local(path).open("rb")

    def move(self, source: str, target: str) -> None:
        place = _local(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(_local(source), place)

    def move_folder(self, source: str, target: str) -> bool:
        try:
            # Fails if the target exists and is not an empty folder.
            os.rename(_local(source), _local(target))
        except OSError:
            return False
        return True

    def remove(self, path: str) -> None:
        place = _local(path)
        place.unlink(missing_ok=True)
        _drop_empty(place.parent)

    def remove_folder(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(_local(path))


class RemoteFiles:
    """Files through fsspec. A move is a copy and a deletion, so it is not atomic."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def exists(self, path: str) -> bool:
        return bool(self._uncached.exists(path))

    def is_folder(self, path: str) -> bool:
        return bool(self._uncached.isdir(path))

    def sizes(self, path: str) -> dict[str, int]:
        root = self._root(path)
        found = self._uncached.find(root, detail=True)
        return {
            name.removeprefix(root).strip("/"): int(facts["size"]) for name, facts in found.items()
        }

    def folders(self, path: str) -> list[str]:
        try:
            listed = self._uncached.ls(self._root(path), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            entry["name"].rstrip("/").rpartition("/")[2]
            for entry in listed
            if entry["type"] == "directory"
        )

    def open(self, path: str) -> BinaryIO:
        opened: BinaryIO = self._filesystem.open(self._root(path), "rb")
        return opened

    def move(self, source: str, target: str) -> None:
        self._filesystem.makedirs(self._root(target).rpartition("/")[0], exist_ok=True)
        self._filesystem.copy(self._root(source), self._root(target))
        self._filesystem.rm_file(self._root(source))

    def move_folder(self, source: str, target: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(self._root(path))

    def remove_folder(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm(self._root(path), recursive=True)

    def _root(self, path: str) -> str:
        return str(self._filesystem._strip_protocol(path)).rstrip("/")

    @property
    def _uncached(self) -> Any:
        """The file system without its cached listings: Spark writes to the same folders."""
        self._filesystem.invalidate_cache()
        return self._filesystem


def _local(path: str) -> Path:
    local = local_path(path)
    assert local is not None, path
    return local


def _drop_empty(folder: Path) -> None:
    """Remove this partition folder if it is empty, and then its empty parents."""
    while "=" in folder.name:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent

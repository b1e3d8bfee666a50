"""Storage in a directory of this machine, or in one that all machines mount."""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from stoker.core.errors import InvalidInput, KeyExists, StartupFailed
from stoker.osproc.private_files import (
    PRIVATE_DIRECTORY,
    make_private_directory,
    private_opener,
)
from stoker.storage.contract import (
    checked_folder,
    checked_path,
    no_such_file,
    storage_unavailable,
    too_large,
)
from stoker.storage.threads import StorageThreads, on_common_thread

T = TypeVar("T")

Fill = Callable[[BinaryIO], None]
"""Writes the whole content into an open file."""
Folders = tuple[Path, ...]
MakeFolder = Callable[[Path], Folders]
"""Makes a folder; returns each folder that has a new entry, which is not durable yet."""
NameIt = Callable[[str, Path], None]
"""Gives a complete file its final name."""

_TRIES = 20
"""How often a folder is made for a new file when deletions keep removing the folder."""
_DELETE_SECONDS = 5.0
_DELETE_PAUSE_SECONDS = 0.05
_UNFINISHED = ".stoker-unfinished-"
"""Prefix of files that are being written; those of a dead process are never read."""


class FileStorage:
    """New folders and files are for their owner alone.

    Blocking calls run on the threads of `off_loop`, by default the common ones of the loop.

    With `within`, no file is read that a link has put outside of that directory.

    With `made_by_writing`, an absent directory counts as empty, and the first write creates it.
    Otherwise an absent directory means that the storage is not mounted, and it is never created.
    """

    def __init__(
        self,
        directory: Path,
        *,
        made_by_writing: bool = False,
        within: Path | None = None,
        off_loop: StorageThreads = on_common_thread,
    ) -> None:
        self.directory = directory
        self._made_by_writing = made_by_writing
        self._within = within
        self._off_loop = off_loop

    async def write(self, path: str, content: bytes) -> None:
        target = self._target(path)
        await self._do_long("write", path, lambda: self._replace(target, _putting(content)))

    async def create(self, path: str, content: bytes) -> None:
        target = self._target(path)

        def create() -> None:
            # A rename would replace an existing file; a link fails atomically.
            _write(target, _putting(content), self._make_folder, os.link)

        try:
            await self._do_long("create", path, create)
        except FileExistsError:
            raise KeyExists(self.url(path)) from None

    async def read(self, path: str, *, limit: int | None = None) -> bytes:
        target = self._target(path)

        def read() -> bytes:
            with _open_regular(target, self._within) as file:
                content = file.read() if limit is None else file.read(limit + 1)
            if limit is not None and len(content) > limit:
                raise too_large(target.as_uri(), limit)
            return content

        return await self._do("read", path, read)

    async def exists(self, path: str) -> bool:
        target = self._target(path)

        def exists() -> bool:
            self._check_mounted()
            return target.is_file()

        return await self._do("find", path, exists)

    async def size(self, path: str) -> int:
        target = self._target(path)
        return await self._do("find", path, lambda: target.stat().st_size)

    async def has_files(self, prefix: str) -> bool:
        folder = self.directory / checked_folder(prefix)
        return await self._do("list", prefix, lambda: any(True for _ in self._files_in(folder)))

    async def total_size(self, prefix: str) -> int:
        folder = self.directory / checked_folder(prefix)

        def look() -> int:
            total = 0
            for path in self._files_in(folder):
                with contextlib.suppress(FileNotFoundError):  # Deleted since it was listed.
                    total += (self.directory / path).stat().st_size
            return total

        return await self._do("list", prefix, look)

    async def free_bytes(self) -> int | None:
        def look() -> int:
            facts = os.statvfs(self.directory)
            return facts.f_bavail * facts.f_frsize

        return await self._do("look at the disk of", "", look)

    async def list(self, prefix: str) -> list[str]:
        folder = self.directory / checked_folder(prefix)
        return await self._do("list", prefix, lambda: sorted(self._files_in(folder)))

    async def modified(self, prefix: str) -> dict[str, float]:
        folder = self.directory / checked_folder(prefix)

        def look() -> dict[str, float]:
            times: dict[str, float] = {}
            for path in sorted(self._files_in(folder)):
                with contextlib.suppress(FileNotFoundError):  # Deleted since it was listed.
                    times[path] = (self.directory / path).stat().st_mtime
            return times

        return await self._do("list", prefix, look)

    async def delete(self, path: str) -> None:
        target = self._target(path)

        def delete() -> None:
            self._check_mounted()
            target.unlink(missing_ok=True)
            self._drop_empty_folders(target.parent)

        await self._do("delete", path, delete)

    async def delete_tree(self, prefix: str) -> None:
        folder = self._target(prefix)

        def delete() -> None:
            self._check_mounted()
            _remove_tree(folder)
            self._drop_empty_folders(folder.parent)

        await self._do_long("delete", prefix, delete)

    async def upload(self, source: Path, path: str) -> None:
        target = self._target(path)

        await self._do_long("write", path, lambda: self._replace(target, _copying(source)))

    async def adopt(self, source: Path, path: str) -> None:
        target = self._target(path)

        def adopt() -> None:
            if not _move(source, target, self._make_folder):
                self._replace(target, _copying(source))

        await self._do_long("write", path, adopt)

    async def download(self, path: str, target: Path) -> None:
        stored = self._target(path)

        await self._do_long(
            "read",
            path,
            lambda: _write(target, _copying(stored, self._within), _folder_is_there, os.replace),
        )

    async def pin(self, targets: Mapping[str, str]) -> None:
        pairs = [(self._target(source), self._target(target)) for source, target in targets.items()]

        def link() -> None:
            for folder in {target.parent for _, target in pairs}:
                self._make_folder(folder)
            for source, target in pairs:
                _link_or_copy(source, target)

        await self._do_long("pin", next(iter(targets), ""), link)

    def url(self, path: str) -> str:
        return self._target(path).as_uri()

    def _target(self, path: str) -> Path:
        return self.directory / checked_path(path)

    async def _do_long(self, doing: str, path: str, work: Callable[[], T]) -> T:
        return await self._do(doing, path, work, is_long=True)

    async def _do(
        self, doing: str, path: str, work: Callable[[], T], *, is_long: bool = False
    ) -> T:
        try:
            return await self._off_loop(work, is_long=is_long)
        except FileExistsError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self._made_by_writing and not self.directory.is_dir():
                # Without this, an unmounted directory would look like an empty storage.
                raise storage_unavailable(doing, self._uri(path), error) from error
            raise no_such_file(self._uri(path)) from error
        except OSError as error:
            raise storage_unavailable(doing, self._uri(path), error) from error

    def _uri(self, path: str) -> str:
        return (self.directory / path).as_uri()

    def _check_mounted(self) -> None:
        """Raise FileNotFoundError instead of letting an unmounted directory look empty."""
        if not self._made_by_writing:
            os.stat(self.directory)

    def _files_in(self, folder: Path) -> Iterator[str]:
        self._check_mounted()
        for parent, _, names in os.walk(folder, onerror=_raise_unless_absent):
            for name in names:
                if not name.startswith(_UNFINISHED):
                    yield (Path(parent) / name).relative_to(self.directory).as_posix()

    def _replace(self, target: Path, fill: Fill) -> None:
        _write(target, fill, self._make_folder, os.replace)

    def _make_folder(self, folder: Path) -> Folders:
        """Make the folder, but not the storage directory itself: it may just not be mounted."""
        if folder == self.directory:
            if self._made_by_writing:
                make_directory(folder)
            return ()
        entered: Folders = ()
        try:
            os.mkdir(folder, PRIVATE_DIRECTORY)
        except FileExistsError:
            if folder.is_file():
                raise _below_a_file(folder) from None
            return ()
        except NotADirectoryError:
            if not self.directory.is_dir():
                raise
            raise _below_a_file(folder) from None
        except FileNotFoundError:
            entered = self._make_folder(folder.parent)
            folder.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
        return (folder.parent, *entered)

    def _drop_empty_folders(self, folder: Path) -> None:
        """Remove empty folders, so that deleted jobs leave nothing behind."""
        while folder != self.directory and self.directory in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _below_a_file(folder: Path) -> InvalidInput:
    return InvalidInput(
        f"nothing can be written in {folder.as_uri()}: a part of this path is a file, "
        "not a directory; choose another path",
        path=folder.as_uri(),
    )


def make_directory(directory: Path) -> None:
    try:
        make_private_directory(directory)
    except OSError as error:
        raise StartupFailed(
            f"the storage directory {directory} cannot be made: {error.strerror}; "
            "choose one that this user may write",
            directory=str(directory),
        ) from error


def _remove_tree(folder: Path) -> None:
    """Delete the tree, although Spark may still write or clean up there after a query."""
    deadline = time.monotonic() + _DELETE_SECONDS
    while folder.is_dir():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                raise
            time.sleep(_DELETE_PAUSE_SECONDS)


def _link_or_copy(source: Path, target: Path) -> None:
    """Never write into `target`: if it exists, it may share its bytes with a live file."""
    temporary = target.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
    try:
        try:
            os.link(source, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            # A file system without hard links, or too many of them.
            shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        # A rename between two links of one file does nothing and leaves both.
        temporary.unlink(missing_ok=True)


def _putting(content: bytes) -> Fill:
    def put(file: BinaryIO) -> None:
        file.write(content)

    return put


def _copying(source: Path, within: Path | None = None) -> Fill:
    def copy(file: BinaryIO) -> None:
        with _open_regular(source, within) as opened:
            shutil.copyfileobj(opened, file)

    return copy


def _open_regular(path: Path, within: Path | None = None) -> BinaryIO:
    """Open a file that has an end. `within`: where it must really be, whatever links say."""
    # Without O_NONBLOCK the opening of a pipe waits for somebody who writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(mode := os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise InvalidInput(f"{path.as_uri()} is not a regular file", path=path.as_uri())
        # Asked of the open file, because the path may lead elsewhere a moment later.
        if within is not None and not _is_below(os.readlink(f"/proc/self/fd/{descriptor}"), within):
            raise InvalidInput(
                f"{path.as_uri()} leads by a link out of {within.as_uri()}", path=path.as_uri()
            )
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _is_below(path: str, directory: Path) -> bool:
    real = os.path.realpath(directory)
    return path.startswith(f"{real.rstrip('/')}/")


def _write(target: Path, fill: Fill, make_folder: MakeFolder, name_it: NameIt) -> None:
    """Make the file complete and durable, then give it its name, then make the name durable."""
    # A unique name in the folder of the target.
    temporary = f"{target.parent}/{_UNFINISHED}{secrets.token_hex(8)}"
    file, entered = _open_new(temporary, target.parent, make_folder)
    try:
        with file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        name_it(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(temporary)
    # From the inside out: the first sync usually writes the entries of all folders.
    for folder in (target.parent, *entered):
        _sync_folder(folder)


def _move(source: Path, target: Path, make_folder: MakeFolder) -> bool:
    """Move the file, as durably as `_write`; False if it has to be copied to this file system."""
    with source.open("rb") as file:
        os.fsync(file.fileno())
    entered: dict[Path, None] = {}
    for attempt in range(_TRIES):
        try:
            os.replace(source, target)
            break
        except (FileNotFoundError, NotADirectoryError):
            # The folder is absent, or a deletion dropped it just after it was made.
            # Or it is a file: then `make_folder` raises the error that says so.
            if attempt == _TRIES - 1:
                raise
            entered |= dict.fromkeys(make_folder(target.parent))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
    for folder in (target.parent, *entered):
        _sync_folder(folder)
    return True


def _open_new(
    path: str, folder: Path, make_folder: MakeFolder
) -> tuple[BinaryIO, dict[Path, None]]:
    """Open a new file. A deletion may remove the new folder at once, so try several times."""
    entered: dict[Path, None] = {}
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return open(path, "xb", opener=private_opener), entered
        with contextlib.suppress(FileNotFoundError):
            entered |= dict.fromkeys(make_folder(folder))
    return open(path, "xb", opener=private_opener), entered


def _folder_is_there(_folder: Path) -> Folders:
    """For targets outside the storage, whose folders belong to the caller."""
    return ()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error

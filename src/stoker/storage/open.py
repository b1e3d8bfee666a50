"""Opening the storage that a URL names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidOption
from stoker.storage.contract import Storage
from stoker.storage.files import FileStorage, make_directory
from stoker.storage.threads import StorageThreads, on_common_thread


def open_storage(url: str) -> Storage:
    """`file:///dir`, a plain absolute path, or any URL that an installed fsspec driver knows.

    A missing directory is created.
    """
    directory = local_directory(url)
    if directory is None:
        return _open_remote(url)
    make_directory(directory)
    return FileStorage(directory)


def open_place(
    url: str, *, off_loop: StorageThreads = on_common_thread, within: Path | None = None
) -> Storage:
    """Like `open_storage`, but only the first write creates a missing directory.

    Nothing is reached before the first call, and that one runs off the loop. `within`: the
    directory out of which no link of a local place may lead.
    """
    directory = local_directory(url)
    if directory is None:
        # The driver is optional and slow to import; a local cluster never needs it.
        from stoker.storage.remote import open_remote_later  # noqa: PLC0415

        return open_remote_later(url, off_loop)
    return FileStorage(directory, made_by_writing=True, within=within, off_loop=off_loop)


def local_directory(url: str) -> Path | None:
    """The local directory; None for any other kind of storage."""
    if url.startswith("/"):
        return Path(url)
    parts = urlsplit(url)
    if parts.scheme in ("file", "local"):
        # "local" would open fsspec's local file system, which cannot create a file exactly once.
        is_path = parts.netloc in ("", "localhost") and parts.path.startswith("/")
        if parts.scheme == "local" or not is_path:
            raise InvalidOption(
                f"{url!r} is not a storage directory; write file:///absolute/path", url=url
            )
        return Path(unquote(parts.path))
    if not parts.scheme:
        raise InvalidOption(
            f"{url!r} is not a storage directory; write an absolute path or a URL such as "
            "file:///var/lib/stoker or s3://bucket/stoker",
            url=url,
        )
    return None


def _open_remote(url: str) -> Storage:
    # The driver is optional and slow to import; a local cluster never needs it.
    from stoker.storage.remote import open_remote  # noqa: PLC0415

    return open_remote(url)

"""Which storage a URL means."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidOption, StartupFailed
from stoker.storage.contract import Storage
from stoker.storage.files import FileStorage


def open_storage(url: str) -> Storage:
    """`file:///dir`, a plain absolute path, or any URL that an installed fsspec driver knows."""
    if url.startswith("/"):
        return _open_directory(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidOption(
                f"{url!r} is not a storage directory; write file:///absolute/path", url=url
            )
        return _open_directory(Path(unquote(parts.path)))
    if not parts.scheme:
        raise InvalidOption(
            f"{url!r} is not a storage directory; write an absolute path or a URL such as "
            "file:///var/lib/stoker or s3://bucket/stoker",
            url=url,
        )
    # The driver is optional and slow to import; a local cluster never needs it.
    from stoker.storage.remote import open_remote  # noqa: PLC0415

    return open_remote(url)


def _open_directory(directory: Path) -> FileStorage:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartupFailed(
            f"the storage directory {directory} cannot be made: {error.strerror}; "
            "choose one that this user may write",
            directory=str(directory),
        ) from error
    return FileStorage(directory)

"""Translation of errors of the operating system into ours."""

import errno

from stoker.core.errors import NotFound, StorageUnavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def no_such_file(url: str) -> NotFound:
    return NotFound(f"no file {url} in the storage", path=url)


def storage_unavailable(doing: str, url: str, error: OSError) -> StorageUnavailable:
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in _FULL:
        advice = "the disk is full; free some space, then try again"
    else:
        advice = "check that the storage directory is mounted and writable, then try again"
    return StorageUnavailable(
        f"cannot {doing} {url}: {reason}; {advice}", path=url, reason=reason, errno=error.errno
    )

"""The secret by which the processes of a cluster on one machine know each other.

Every user of a machine can call a port on loopback, and can listen on one that a process has just
left. So both ends of a connection prove that they know the secret before they say anything else
(`rpc/admission.py`). The secret itself is never sent, printed or logged.

The first process of a cluster makes the file. Processes may start at the same moment, and all of
them use the file of the one that was first.
"""

import contextlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from stoker.core.errors import InvalidOption, StartupFailed
from stoker.security.private_files import check_private

FILE_NAME = "cluster-secret"
_OPTION = "security.internal.secret-file"
_KEY_BYTES = 32


@dataclass(frozen=True)
class ClusterSecret:
    key: bytes = field(repr=False)

    def prove(self, *facts: str) -> bytes:
        """A proof that is good for these facts alone."""
        return hmac.digest(self.key, "\0".join(facts).encode(), "sha256")

    def is_proven_by(self, proof: bytes, *facts: str) -> bool:
        return hmac.compare_digest(proof, self.prove(*facts))


def read_or_make_secret(path: Path) -> ClusterSecret:
    """Raises InvalidOption for a file that others can read or that holds no secret."""
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise StartupFailed(
            f"the secret of the cluster {path} cannot be used: {error.strerror}; the processes of "
            f"a cluster run as one user, or {_OPTION} names a file that all of them can read",
            path=str(path),
        ) from error


def _make(path: Path) -> None:
    """Make the complete file appear at once, unless another process has been faster."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> ClusterSecret:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        check_private(path, status, _OPTION)
        text = file.read(4096).decode(errors="replace").strip() if _is_file(status) else ""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise InvalidOption(
            f"{path} ({_OPTION}) holds no secret of a cluster; remove it while no process of the "
            "cluster runs, and the next one makes another",
            path=str(path),
        )
    return ClusterSecret(key)


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)

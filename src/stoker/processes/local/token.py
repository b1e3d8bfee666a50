"""The token of a local cluster, by which its REST API is for its user alone.

`stoker cluster up` makes it in the directory of the cluster, and commands and programs of the same
user find it there. They show it at the sockets of that cluster only. Nobody else can listen there,
since its directory is private.
"""

import contextlib
import secrets
import time
from pathlib import Path

from stoker.client.masters import parse_masters
from stoker.osproc.atomic_file import write_atomically
from stoker.processes.local.cluster_state import is_socket_of, local_directories
from stoker.security.owners import local_user
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of

HASHES_FILE = "rest-tokens.json"
"""What the masters read: `security.rest.tokens`."""
TOKEN_FILE = "rest-token"
_SECRET_BYTES = 32


def make_token(directory: Path) -> None:
    """Make a token, unless there is one of an earlier start."""
    if token_of(directory) is not None and hashes_of(directory) is not None:
        return
    remove_token(directory)
    token_id = secrets.token_hex(4)
    text = text_of(token_id, secrets.token_urlsafe(_SECRET_BYTES))
    TokenFile(directory / HASHES_FILE).add(
        Token(
            id=token_id,
            # The name owns the jobs that are submitted with the token.
            name=local_user(),
            role=Role.OPERATE,
            sha256=hash_of(text),
            created_ms=time.time_ns() // 1_000_000,
        )
    )
    write_atomically(directory / TOKEN_FILE, f"{text}\n".encode(), mode=0o600)


def remove_token(directory: Path) -> None:
    """Let the next masters of the cluster serve whoever reaches them."""
    for name in (TOKEN_FILE, HASHES_FILE):
        (directory / name).unlink(missing_ok=True)


def hashes_of(directory: Path) -> Path | None:
    """The file for the masters; None for a cluster without a token of its own."""
    path = directory / HASHES_FILE
    return path if path.exists() else None


def token_of(directory: Path) -> str | None:
    """The token of the local cluster in this directory; None if it has none, or not for us."""
    with contextlib.suppress(OSError):
        return (directory / TOKEN_FILE).read_text().strip() or None
    return None


def token_for(masters: str) -> str | None:
    """The token for these masters, if all of them are masters of one local cluster of ours.

    That is the cluster to which this program belongs, or the one that commands refer to.
    """
    for directory in local_directories():
        token = token_of(directory)
        if token is not None and all(
            is_socket_of(directory, url) for url in parse_masters(masters)
        ):
            return token
    return None

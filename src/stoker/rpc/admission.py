"""Admission to a gRPC stream: both ends prove that they know the secret of the cluster.

On loopback any user of the machine can be at the other end: as a caller, or as somebody who listens
on the port of a process that has just died. Neither may learn anything. So, before the first frame:

1. The caller opens the stream with a challenge, a random number.
2. The called side answers with a challenge of its own and its proof. The caller checks the proof.
3. The first message of the caller is its proof. The called side checks it.

A proof covers both challenges, the address that was called, and which side gives it. So none is
good for a second time, at another address or in the other direction, and whoever stands between two
processes at an address of his own cannot pass proofs on.

With mutual TLS there is no secret: certificates prove the same, and then these steps are left out.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc

from stoker.core.errors import RecipientUnreachable
from stoker.security.cluster_secret import ClusterSecret

Greet = Callable[[], Awaitable[None]]
"""Carries out the caller's steps on a stream that it has opened."""

_CHALLENGE = "stoker-challenge"
_PROOF = "stoker-proof"
_CALLER, _CALLED = "caller", "called"
_CHALLENGE_BYTES = 16
_PATIENCE_SECONDS = 10.0
"""How long a caller may take to prove itself."""


async def greet_nobody() -> None:
    """For streams without a secret."""


class Greeting:
    """The caller's side of one stream to a service."""

    def __init__(self, secret: ClusterSecret, service: str) -> None:
        self._secret = secret
        self._service = service
        self._challenge = secrets.token_hex(_CHALLENGE_BYTES)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ((_CHALLENGE, self._challenge),)

    async def exchange(self, stream: Any) -> None:
        """Raises RecipientUnreachable if it is a stranger that answers at this address."""
        # As pairs: the metadata of gRPC looks like a mapping, but is none.
        answer = dict(tuple(await stream.initial_metadata()))
        if stream.done():
            # Nobody has answered: the caller learns that when it uses the stream.
            return
        facts = (self._service, self._challenge, str(answer.get(_CHALLENGE, "")))
        if not self._secret.is_proven_by(_bytes_of(answer.get(_PROOF)), _CALLED, *facts):
            stream.cancel()
            raise RecipientUnreachable(
                f"what answers at {self._service} does not know the secret of this cluster; it is "
                "not the process that was there, or it belongs to another cluster",
                recipient=self._service,
            )
        # If the stream has just ended, the next read raises the reason.
        with suppress(asyncio.InvalidStateError):
            await stream.write(self._secret.prove(_CALLER, *facts))


async def admit(secret: ClusterSecret | None, address: str, context: Any) -> None:
    """Carry out the called side's steps; ends the call of a stranger with an error of gRPC."""
    if secret is None:
        return
    given = dict(tuple(context.invocation_metadata() or ())).get(_CHALLENGE)
    if not given:
        await _refuse(context)
    facts = (address, str(given), secrets.token_hex(_CHALLENGE_BYTES))
    proof = secret.prove(_CALLED, *facts).hex()
    await context.send_initial_metadata(((_CHALLENGE, facts[-1]), (_PROOF, proof)))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            answer = await context.read()
    except TimeoutError:
        answer = grpc.aio.EOF
    if answer is grpc.aio.EOF or not secret.is_proven_by(answer, _CALLER, *facts):
        await _refuse(context)


async def _refuse(context: Any) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "the caller does not know the secret of this cluster; all its processes need the same "
        "security.internal.secret-file, or mutual TLS",
    )


def _bytes_of(text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError:
        return b""

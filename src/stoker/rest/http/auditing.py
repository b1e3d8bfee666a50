"""Which requests leave a line in the audit log, and what it says.

A change is recorded when its answer is known and before the caller gets it, also if the caller has
gone by then. One that is cut off because the server closes has no answer; it is recorded all the
same, since it may have taken effect. A refusal of access is recorded for every request. Requests
that a standby forwards are recorded by the leader.
"""

from collections.abc import Mapping

import msgspec

from stoker.aio.clock import WallClock
from stoker.core.values import decode_json
from stoker.rest.http.access import Requester
from stoker.rest.http.asgi import CALLER, Message, Scope, Send
from stoker.rest.http.routing import Target
from stoker.security.audit import AuditLog, audit_time, outcome_of
from stoker.security.audit_entries import AuditEntry
from stoker.security.tokens import Permission

_CHANGES = frozenset({Permission.SUBMIT, Permission.CONTROL, Permission.OPERATE})
_READING = frozenset({"/audit"})
"""Paths that need the permission of a change, and change nothing."""
_HEARTBEAT = "/clientHeartbeat"
"""End of the path of a heartbeat, which comes every few seconds and only says that all is well."""
_REFUSALS = frozenset({401, 403, 429})
_UNAVAILABLE = 503
_CUT_OFF = "the master was shutting down before the answer was known; it may have taken effect"
FORWARDED_TO_LEADER = "stoker.forwarded-to-leader"
"""Key in the scope of a request that the leader answers, and records."""


def is_change(target: Target) -> bool:
    if target.path in _READING or target.path.endswith(_HEARTBEAT):
        return False
    return target.needs in _CHANGES


class AuditedSend:
    """A `send` that records the request when its answer begins."""

    def __init__(
        self,
        send: Send,
        audit: AuditLog,
        *,
        scope: Scope,
        target: Target,
        address: str,
        clock: WallClock,
    ) -> None:
        self._send = send
        self._audit = audit
        self._scope = scope
        self._target = target
        self._address = address
        self._clock = clock
        self._start: Message | None = None
        """The beginning of the answer, which waits for the first bytes of its body."""
        self._has_answer = False

    async def __call__(self, message: Message) -> None:
        self._has_answer = True
        if message["type"] == "http.response.start" and self._is_recorded(message["status"]):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            await self._audit.append(self._entry(start["status"], message.get("body", b"")))
            await self._send(start)
        await self._send(message)

    @property
    def is_cut_off(self) -> bool:
        """Whether the handler, if it has ended, has left a request without a complete answer."""
        return self._start is not None or not self._has_answer

    async def record_cut_off(self) -> None:
        """Record the request for which `is_cut_off` holds, if it is to be recorded at all."""
        if self._start is not None:
            start, self._start = self._start, None
            await self._audit.append(self._entry(start["status"], b""))
        elif self._is_recorded(_UNAVAILABLE):
            entry = self._entry(_UNAVAILABLE, b"")
            await self._audit.append(
                msgspec.structs.replace(entry, outcome="unknown", reason=_CUT_OFF)
            )

    def _is_recorded(self, status: int) -> bool:
        if FORWARDED_TO_LEADER in self._scope:
            return False
        return status in _REFUSALS or is_change(self._target)

    def _entry(self, status: int, body: bytes) -> AuditEntry:
        caller: Requester | None = self._scope.get(CALLER)
        answer = _fields_of(body)
        route = self._target.route
        path = self._target.path if route is None else route.paths[0]
        return AuditEntry(
            time=audit_time(self._clock()),
            caller=caller.name if caller else "",
            role=str(caller.role) if caller and caller.is_identified else "",
            address=self._address,
            action=f"{self._scope['method']} {path}",
            object=next(iter(self._target.arguments.values()), _job_in(answer)),
            outcome=outcome_of(status),
            status=status,
            reason=_reason_in(answer) if status >= 400 else "",
        )


def _fields_of(body: bytes) -> Mapping[str, object]:
    try:
        return decode_json(body, dict[str, object])
    except msgspec.DecodeError:
        return {}


def _job_in(answer: Mapping[str, object]) -> str:
    """The id of the job that was submitted."""
    return str(answer.get("jobId") or answer.get("jobid") or "")


def _reason_in(answer: Mapping[str, object]) -> str:
    match answer.get("errors"):
        case [first, *_]:
            return str(first)
        case _:
            return ""

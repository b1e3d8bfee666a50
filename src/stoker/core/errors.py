"""Every error that Stoker raises on purpose.

StokerError
├── InvalidInput                400  the caller's fault; the message says where and what to do
│   ├── InvalidJobGraph              one fault or many, each with its place
│   ├── InvalidOption                unknown key, bad value
│   ├── UnusableSavepoint            missing, damaged, or of a newer version
│   ├── IncompatibleSavepoint        its state does not fit the job; the message says why
│   └── TooLarge                413
├── Forbidden                   403  not allowed to anybody in this way
├── AccessDenied                403  no valid token, or one without the needed role
├── NotFound                    404
│   ├── JobNotFound
│   ├── BlobNotFound
│   └── NoSuchKey                    coordinator
├── Conflict                    409
│   ├── OutputInUse                  another stream writes the same output
│   ├── DuplicateJob                 same id with another graph, or the job has ended
│   ├── JobAlreadyEnded              cancel of a job that ended in another way
│   ├── CannotTakeSavepoint          the present state of the job does not allow it
│   ├── ClusterIsEnding              it is being shut down and accepts nothing new
│   ├── JobQuarantined               accepted, but its records or its content cannot be loaded
│   ├── KeyExists                    coordinator
│   └── VersionMismatch              coordinator
├── Unavailable                 503  a retry can help
│   ├── NoLeader
│   ├── RecipientUnreachable         nobody listens, or the endpoint stopped
│   ├── EndpointNotStarted
│   ├── CoordinatorUnavailable       the write was certainly not applied
│   │   └── CoordinatorFull     507  its disk is full: a retry within a minute is useless
│   ├── ConnectionLost               the outcome of a coordinator write is unknown
│   └── StorageUnavailable           the shared storage cannot be read or written
│       └── StorageFull         507  somebody has to free space: a retry within a minute is useless
├── LimitReached                429  the caller has as many of something as it may have
├── CallTimedOut                504
├── Fenced                      409
│   ├── FencingTokenMismatch
│   └── LeadershipLost
├── SessionExpired              503
├── CorruptContent              400  bytes do not match their checksum
├── CannotResume                500  a job that ran before cannot be started again
├── SavepointFailed             500  the operation failed, the job keeps running
├── HandshakeFailed             500  protocol version or gateway mismatch
├── RemoteError                 500  an exception of the other process that is not one of these
├── StartupFailed               500  port in use, no Java, bad directory
└── JobFailed                   500  a job that the caller waited for did not succeed
"""

from typing import Any, ClassVar


class StokerError(Exception):
    """Base of the tree. `facts` are plain values, which cross wires together with the message."""

    status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, /, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        return self.message


class InvalidInput(StokerError):
    status = 400


class InvalidJobGraph(InvalidInput):
    def __init__(self, faults: list[str]) -> None:
        listing = "; ".join(faults)
        super().__init__(f"the job cannot be accepted: {listing}", faults=faults)


class InvalidOption(InvalidInput):
    pass


class TooLarge(InvalidInput):
    status = 413


class UnusableSavepoint(InvalidInput):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the savepoint {path} cannot be used: {reason}", path=path, reason=reason)


class IncompatibleSavepoint(InvalidInput):
    def __init__(self, path: str, reasons: list[str]) -> None:
        listing = "; ".join(reasons)
        super().__init__(f"the job cannot start from {path}: {listing}", path=path, reasons=reasons)


class Forbidden(StokerError):
    status = 403


class AccessDenied(StokerError):
    status = 403


class NotFound(StokerError):
    status = 404


class JobNotFound(NotFound):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job with id {job_id}", job_id=job_id)


class BlobNotFound(NotFound):
    pass


class NoSuchKey(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"no key {key} at the coordinator", key=key)


class Conflict(StokerError):
    status = 409


class OutputInUse(Conflict):
    pass


class DuplicateJob(Conflict):
    def __init__(self, job_id: str, *, globally_terminated: bool, detail: str = "") -> None:
        state = "has already ended" if globally_terminated else "is already known"
        suffix = f": {detail}" if detail else ""
        super().__init__(
            f"a job with id {job_id} {state}{suffix}; choose another id",
            job_id=job_id,
            globally_terminated=globally_terminated,
        )


class JobAlreadyEnded(Conflict):
    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"job {job_id} has ended as {state} and cannot be cancelled", job_id=job_id, state=state
        )


class JobQuarantined(Conflict):
    def __init__(self, job_id: str, reason: str, *, cancel_wanted: bool = False) -> None:
        cancel = (
            "; its cancellation is recorded and follows when it can be loaded"
            if cancel_wanted
            else ""
        )
        super().__init__(
            f"job {job_id} is in quarantine and does not run: {reason}{cancel}; repair that "
            f"and run: stoker quarantine retry {job_id}, or give the job up with: "
            f"stoker quarantine drop {job_id}",
            job_id=job_id,
            reason=reason,
            cancel_wanted=cancel_wanted,
        )


class CannotTakeSavepoint(Conflict):
    pass


class ClusterIsEnding(Conflict):
    pass


class KeyExists(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(f"key {key} exists already", key=key)


class VersionMismatch(Conflict):
    def __init__(self, key: str, expected: int) -> None:
        super().__init__(
            f"key {key} is not at version {expected} any more", key=key, expected=expected
        )


class Unavailable(StokerError):
    status = 503
    retriable = True


class NoLeader(Unavailable):
    pass


class RecipientUnreachable(Unavailable):
    pass


class EndpointNotStarted(Unavailable):
    pass


class CoordinatorUnavailable(Unavailable):
    pass


class CoordinatorFull(CoordinatorUnavailable):
    status = 507


class ConnectionLost(Unavailable):
    pass


class StorageUnavailable(Unavailable):
    pass


class StorageFull(StorageUnavailable):
    status = 507


class LimitReached(StokerError):
    """`retry_after_seconds` is among the facts if waiting alone helps."""

    status = 429


class CallTimedOut(StokerError):
    status = 504
    retriable = True


class Fenced(StokerError):
    status = 409


class FencingTokenMismatch(Fenced):
    pass


class LeadershipLost(Fenced):
    pass


class SessionExpired(StokerError):
    status = 503


class CorruptContent(StokerError):
    status = 400


class CannotResume(StokerError):
    pass


class SavepointFailed(StokerError):
    pass


class HandshakeFailed(StokerError):
    pass


class RemoteError(StokerError):
    pass


class StartupFailed(StokerError):
    pass


class JobFailed(StokerError):
    pass

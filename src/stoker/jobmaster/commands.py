"""What the execution graph wants done, and what it is told of former attempts."""

from dataclasses import dataclass

from stoker.core.ids import AttemptId, RegionId
from stoker.core.results import AttemptOutcome
from stoker.jobmaster.attempts import SlotHandle


@dataclass(frozen=True)
class Deploy:
    region: RegionId
    attempt: AttemptId
    number: int
    slot: SlotHandle


@dataclass(frozen=True)
class CancelAttempt:
    attempt: AttemptId
    slot: SlotHandle


@dataclass(frozen=True)
class ReleaseSlots:
    slots: tuple[SlotHandle, ...]


@dataclass(frozen=True)
class RestartAfter:
    region: RegionId
    attempt: AttemptId
    seconds: float


Command = Deploy | CancelAttempt | ReleaseSlots | RestartAfter


@dataclass(frozen=True, kw_only=True)
class FormerAttempt:
    """What the records say of an attempt that an earlier leader deployed."""

    attempt: AttemptId
    number: int
    slot: SlotHandle
    outcome: AttemptOutcome | None = None
    interrupted: bool = False
    """It died when the output of its region was already decided."""

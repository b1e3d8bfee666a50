"""Matching of free slots to jobs. Pure: needs, free slots and the time in, pairs out.

Slots are scarce, and no simple order is fair. By priority alone, a flood of important jobs starves
the others. One slot at a time, two jobs that each need four slots together could hold two each and
wait for ever. Four at a time, small jobs could keep a large one waiting for ever. Hence, in this
order:

- Higher priorities come first. Waiting raises the priority by one step for each `ageing`, so that
  important jobs delay the others and never starve them.
- Among equals, the job that holds the fewest slots comes first, then the one that waits longest.
- A job whose regions start together gets all the slots it lacks at once or none. Other jobs may
  overtake it until it has waited for `patience`; then free slots are reserved for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from stoker.core.graph import ResourceProfile
from stoker.core.ids import InstanceId, JobId
from stoker.core.priorities import aged_priority


class Placement(StrEnum):
    SPREAD = "spread"
    """The emptiest task executor first."""
    PACK = "pack"
    """The fullest task executor first, so that others stay idle and can be released."""


@dataclass(frozen=True, kw_only=True)
class MatchingRules:
    placement: Placement = Placement.SPREAD
    patience: timedelta = timedelta(minutes=1)
    ageing: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Need:
    job_id: JobId
    missing: int
    at_once: int = 1
    """The job cannot use fewer slots than this now."""
    held: int = 0
    priority: int = 0
    since: float = 0.0
    """Time since which the job waits, on the clock of `now`."""
    profile: ResourceProfile = ResourceProfile()


@dataclass(frozen=True, kw_only=True)
class FreeSlot:
    instance: InstanceId
    index: int
    profile: ResourceProfile = ResourceProfile()


@dataclass(frozen=True, kw_only=True)
class Match:
    job_id: JobId
    slot: FreeSlot


def match(
    needs: Iterable[Need],
    free: Iterable[FreeSlot],
    *,
    used: dict[InstanceId, int],
    now: float,
    rules: MatchingRules,
) -> list[Match]:
    """Match free slots to jobs; `used` counts the occupied slots of each task executor."""
    this_round = _Round(rules, list(free), dict(used))
    waiting = {need.job_id: need for need in needs if need.missing > 0}
    given = dict.fromkeys(waiting, 0)
    while waiting and this_round.free:
        need = min(
            waiting.values(),
            key=lambda need: (
                -aged_priority(need.priority, timedelta(seconds=now - need.since), rules.ageing),
                need.held + given[need.job_id],
                need.since,
                need.job_id,
            ),
        )
        count = 1 if given[need.job_id] else max(1, min(need.at_once, need.missing))
        if this_round.give(need, count):
            given[need.job_id] += count
            if given[need.job_id] >= need.missing:
                del waiting[need.job_id]
            continue
        if now - need.since >= rules.patience.total_seconds():
            this_round.reserve_for(need, count)
        del waiting[need.job_id]
    return this_round.matches


@dataclass
class _Round:
    rules: MatchingRules
    free: list[FreeSlot]
    used: dict[InstanceId, int]
    matches: list[Match] = field(default_factory=list)

    def give(self, need: Need, count: int) -> bool:
        if sum(need.profile.fits_into(slot.profile) for slot in self.free) < count:
            return False
        for _ in range(count):
            slot = min(self._fitting(need), key=self._rank)
            self.free.remove(slot)
            self.used[slot.instance] = self.used.get(slot.instance, 0) + 1
            self.matches.append(Match(job_id=need.job_id, slot=slot))
        return True

    def reserve_for(self, need: Need, count: int) -> None:
        """Withhold slots for this job from the jobs after it."""
        for slot in sorted(self._fitting(need), key=self._rank)[:count]:
            self.free.remove(slot)

    def _fitting(self, need: Need) -> list[FreeSlot]:
        return [slot for slot in self.free if need.profile.fits_into(slot.profile)]

    def _rank(self, slot: FreeSlot) -> tuple[float, ...]:
        used = self.used.get(slot.instance, 0)
        order = used if self.rules.placement is Placement.SPREAD else -used
        # The smallest slot that fits, so that large ones remain for jobs that need them.
        return (order, slot.profile.cores, slot.profile.memory_bytes)

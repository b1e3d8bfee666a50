"""How waiting raises the priority of a job, so that no job waits for ever."""

from datetime import timedelta


def aged_priority(priority: int, waited: timedelta, ageing: timedelta) -> int:
    """One step more for every full `ageing` that the job has waited; 0 s switches ageing off."""
    if ageing <= timedelta(0):
        return priority
    return priority + int(max(timedelta(0), waited) / ageing)

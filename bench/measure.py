"""Samples of what a machine with other work on it says, and how they are shown."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    name: str
    values: tuple[float, ...]
    unit: str = "ms"

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        return (
            f"{self.name}: median {_shown(self.median)} {self.unit} "
            f"({_shown(low)} to {_shown(high)}, n={len(self.values)})"
        )


@dataclass(frozen=True)
class Verdict:
    """One figure against its aim; `is_met` is for people, nothing fails by it."""

    what: str
    value: float
    aim: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.value >= self.aim if self.at_least else self.value <= self.aim

    def __str__(self) -> str:
        mark = "met" if self.is_met else "NOT MET"
        bound = "at least" if self.at_least else "at most"
        value = f"{self.value:.2f} {self.unit}".rstrip()
        return f"  {self.what}: {value}, aim {bound} {self.aim:g}: {mark}"


def rounds(usual: int) -> int:
    """STOKER_BENCH_ROUNDS, to try a case in a hurry."""
    return int(os.environ.get("STOKER_BENCH_ROUNDS", usual))


def processor_seconds(pid: int) -> float:
    """What a process has used so far: says more than wall time where others work too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def milliseconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def alternate(
    reference: Callable[[], object],
    ours: Callable[[], object],
    *,
    names: tuple[str, str],
    rounds: int,
    warm_up: int = 3,
    rest_seconds: float = 0.0,
) -> tuple[Sample, Sample]:
    """Measure both in turn, so that whatever else the machine does touches both alike.

    What one of them goes on doing after its end is over after a rest, and burdens only itself.
    """

    def rested(action: Callable[[], object]) -> float:
        time.sleep(rest_seconds)
        return milliseconds(action)

    for _ in range(warm_up):
        reference()
        ours()
    pairs = [(rested(reference), rested(ours)) for _ in range(rounds)]
    return (
        Sample(names[0], tuple(pair[0] for pair in pairs)),
        Sample(names[1], tuple(pair[1] for pair in pairs)),
    )

"""Samples and verdicts: how figures are measured on a busy machine, and how they are printed."""

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
            f"{self.name}: median {_formatted(self.median)} {self.unit} "
            f"({_formatted(low)} to {_formatted(high)}, n={len(self.values)})"
        )


@dataclass(frozen=True)
class Verdict:
    """A figure and its aim. A missed aim is printed; it does not make the run fail."""

    name: str
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
        return f"  {self.name}: {value}, aim {bound} {self.aim:g}: {mark}"


def rounds(default: int) -> int:
    """The number of rounds; BENCH_ROUNDS overrides it for a quick trial."""
    return int(os.environ.get("BENCH_ROUNDS", default))


def environment_of_commands() -> dict[str, str]:
    """The environment of this process without its settings of Stoker.

    With PYTHONDONTWRITEBYTECODE a command would lack the compiled modules that an installation has.
    """
    return {
        key: value
        for key, value in os.environ.items()
        if key != "PYTHONDONTWRITEBYTECODE" and not key.startswith("STOKER_")
    }


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far; on a busy machine it says more than wall time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def _formatted(value: float) -> str:
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
    """Measure both in turn, so that other work on the machine affects both alike.

    Work that an action leaves in the background ends during the rest, so that it does not slow the
    other action down.
    """

    def after_rest(action: Callable[[], object]) -> float:
        time.sleep(rest_seconds)
        return milliseconds(action)

    for _ in range(warm_up):
        reference()
        ours()
    pairs = [(after_rest(reference), after_rest(ours)) for _ in range(rounds)]
    return (
        Sample(names[0], tuple(pair[0] for pair in pairs)),
        Sample(names[1], tuple(pair[1] for pair in pairs)),
    )

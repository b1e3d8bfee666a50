"""Faults in what a user wrote, and suggestions for a mistyped word."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: where, what, and what to do about it."""

    place: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem} ({self.remedy})"


def closest(word: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known word that was probably meant, compared without regard to case."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(word.lower(), by_folded, n=1, cutoff=likeness)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A remedy: the likeliest known word. When none is near: `otherwise`, or all known words."""
    candidates = list(known)
    near = closest(word, candidates)
    if near is not None:
        return f"did you mean '{near}'?"
    if otherwise is not None:
        return otherwise
    return f"known are: {', '.join(sorted(candidates))}" if candidates else "there are none"

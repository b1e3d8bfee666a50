"""A fault in what a user wrote: where it is, what is wrong, what to do."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy: the likeliest known word, or all of them when none is near."""
    candidates = list(known)
    suggestion = closest(word, candidates)
    if suggestion is not None:
        return f"did you mean '{suggestion}'?"
    return f"known are: {', '.join(sorted(candidates))}" if candidates else "there are none"

"""Settings of Spark whose names are probably misspelt.

Spark accepts a setting of any name, and ignores one that it does not know. A warning is all that
can be said: extensions of Spark have settings of their own.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from stoker.core.faults import closest

_NAMES = "spark_settings.txt"
"""Names of Spark's settings, one on each line; `scripts/spark_settings.py` writes them."""
_LIKENESS = 0.93
_OPEN_FAMILIES = (
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.kubernetes.",
    "spark.sql.catalog.",
    "spark.yarn.",
)
"""Prefixes after which any name may follow."""


def doubtful_settings(keys: Iterable[str]) -> list[str]:
    """A sentence for each setting that looks like another one that Spark knows."""
    unknown = [key for key in keys if _may_be_misspelt(key)]
    return [
        f"{key} is not a setting that Spark knows; did you mean '{meant}'?"
        for key in unknown
        if (meant := closest(key, _known(), likeness=_LIKENESS)) is not None
    ]


def _may_be_misspelt(key: str) -> bool:
    return key.startswith("spark.") and not key.startswith(_OPEN_FAMILIES) and key not in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(files(__package__).joinpath(_NAMES).read_text().split())

"""Which line of the job's code made a part of a plan.

Over Spark Connect a function only describes a plan, and Spark looks at it when all functions have
returned. An error that it finds then has no frame of the job's code. So each part of a plan keeps
the line that made it, and when a plan cannot be resolved, the innermost part that cannot be
resolved by itself tells the line. Spark's own origins of expressions do not cover this: it knows
none for a condition in words, such as `where("a > 1")`.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import LogicalPlan

from stoker.engine.failures import is_user_code

_SITE = "_stoker_call_site"
_MOST_CHECKS = 40
"""Each check is a call to the server."""

CanResolve = Callable[[LogicalPlan], bool]


class _TooManyChecks(Exception):
    pass


def record_call_sites() -> None:
    """Let every part of a plan that this process makes from now on keep its line."""
    original: Any = LogicalPlan.__init__
    if hasattr(original, _SITE):
        return

    @functools.wraps(original)
    def record(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        setattr(self, _SITE, _line_of_caller())

    setattr(record, _SITE, True)
    setattr(LogicalPlan, "__init__", record)  # noqa: B010


_is_user_code = functools.cache(is_user_code)


def _line_of_caller() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not _is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename} line {frame.f_lineno}"


def failed_line(frame: Any) -> str:
    """File and line that made the part of the frame that Spark cannot resolve.

    Empty if the frame can be resolved, or was not made by the job's code.
    """
    plan = getattr(frame, "_plan", None)
    if not isinstance(plan, LogicalPlan):
        return ""
    checks = iter(range(_MOST_CHECKS))

    def can_resolve(part: LogicalPlan) -> bool:
        if next(checks, None) is None:
            raise _TooManyChecks
        try:
            DataFrame(part, frame.sparkSession).schema  # noqa: B018
        except AnalysisException:
            return False
        return True

    try:
        found = None if can_resolve(plan) else innermost_failure(plan, can_resolve)
    except _TooManyChecks:
        return ""
    return "" if found is None else getattr(found, _SITE, "")


def innermost_failure(plan: LogicalPlan, can_resolve: CanResolve) -> LogicalPlan:
    """The part of a plan that fails although all of its own parts can be resolved."""
    chain = list(_chain(plan))
    # Whatever contains a part that fails, fails too.
    good, bad = len(chain), 0
    while good - bad > 1:
        middle = (good + bad) // 2
        if can_resolve(chain[middle]):
            good = middle
        else:
            bad = middle
    if bad == len(chain) - 1:
        for part in parts_of(chain[bad]):
            if not can_resolve(part):
                return innermost_failure(part, can_resolve)
    return chain[bad]


def _chain(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The plan, its only part, the only part of that one, and so on."""
    while True:
        yield plan
        parts = parts_of(plan)
        if len(parts) != 1:
            return
        plan = parts[0]


def parts_of(plan: LogicalPlan) -> list[LogicalPlan]:
    found: list[LogicalPlan] = []
    for value in vars(plan).values():
        candidates = value if isinstance(value, (list, tuple)) else [value]
        found += [each for each in candidates if isinstance(each, LogicalPlan)]
    return found

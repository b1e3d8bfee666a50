"""What the holder of a token may submit: queues, priority, and how many jobs.

A token carries its own limits; for those that it leaves open, the defaults of its role count.
"""

from stoker.core.values import Value

ANY_QUEUE = "*"
"""Among the queues of a token: it may use every queue, whatever the default of its role."""


class SubmissionLimits(Value):
    """No limit where a field is empty or None."""

    queues: tuple[str, ...] = ()
    """The only queues that jobs may name."""
    max_priority: int | None = None
    max_jobs: int | None = None
    """Most jobs of the owner that have not ended, whether they run or wait."""
    max_submissions: int | None = None
    """Most jobs that are accepted in a minute."""

    def or_else(self, default: "SubmissionLimits") -> "SubmissionLimits":
        """These limits, and those of `default` where these are open."""
        return SubmissionLimits(
            queues=self.queues or default.queues,
            max_priority=default.max_priority if self.max_priority is None else self.max_priority,
            max_jobs=default.max_jobs if self.max_jobs is None else self.max_jobs,
            max_submissions=(
                default.max_submissions if self.max_submissions is None else self.max_submissions
            ),
        )

    def allows_queue(self, queue: str) -> bool:
        return not self.queues or ANY_QUEUE in self.queues or queue in self.queues

    def __str__(self) -> str:
        """In words, for a table; empty without limits."""
        parts = [f"queues {', '.join(self.queues)}" if self.queues else ""]
        for value, words in (
            (self.max_priority, "priority up to {}"),
            (self.max_jobs, "{} jobs at once"),
            (self.max_submissions, "{} submissions a minute"),
        ):
            parts.append("" if value is None else words.format(value))
        return "; ".join(filter(None, parts))


NO_LIMITS = SubmissionLimits()

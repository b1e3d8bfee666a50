"""Which jobs write which outputs, from the check of a submission until the job has ended.

Nothing else may write the output of a stream (`stoker.savepoints.outputs`). Between the check of a
submission and its record the dispatcher waits for the storage and the coordinator, and another
submission may be checked meanwhile. So the check reserves the outputs in the same step, without a
wait in between, and the reservation lasts until the job is among the live ones.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from stoker.core.errors import OutputInUse
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import JobId
from stoker.savepoints.outputs import shared_output


class OutputReservations:
    def __init__(self, unfinished: Callable[[], Iterable[JobGraph]]) -> None:
        """`unfinished` answers the graphs of the live jobs that have not ended."""
        self._unfinished = unfinished
        self._reserved: dict[JobId, JobGraph] = {}

    def check(self, graph: JobGraph) -> None:
        """Raise OutputInUse if another stream writes an output of this one, or is about to."""
        others = (*self._reserved.values(), *self._unfinished())
        shared = shared_output(graph, (each for each in others if each.job_id != graph.job_id))
        if shared is not None:
            raise output_in_use(*shared, between_streams=graph.job_type is shared[0].job_type)

    @contextmanager
    def reserve(self, graph: JobGraph) -> Iterator[None]:
        """Check the outputs, and keep them from all other submissions meanwhile."""
        self.check(graph)
        self._reserved[graph.job_id] = graph
        try:
            yield
        finally:
            del self._reserved[graph.job_id]


def output_in_use(other: JobGraph, path: str, *, between_streams: bool = True) -> OutputInUse:
    short = other.job_id[:12]
    is_stream = other.job_type is JobType.STREAMING
    end = f"stoker {'stop' if is_stream else 'cancel'} {short}"
    if between_streams:
        harm = "of two streams with one output Spark would drop rows"
    else:
        harm = (
            "beside a stream, a batch job would delete rows in its output, or add rows that nobody "
            "can read"
        )
    return OutputInUse(
        f"the job {other.name} ({short}) has not ended and writes into {path}; {harm}: end the "
        f"other one first ({end}), or write into another directory",
        job_id=other.job_id,
    )

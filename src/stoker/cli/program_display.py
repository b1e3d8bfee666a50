"""A program while it runs: what it prints appears here, besides the state of its job."""

import sys

from stoker.cli.display import Display
from stoker.client.blocking import BlockingClient
from stoker.core.errors import NotFound, StokerError
from stoker.core.graph import JobGraph, Program
from stoker.core.ids import AttemptId, JobId
from stoker.core.results import AttemptDetails, JobDetails
from stoker.core.states import ExecutionState

_SILENT = (ExecutionState.CREATED, ExecutionState.SCHEDULED, ExecutionState.DEPLOYING)
_STREAMS = ("stdout", "stderr")


def is_program(graph: JobGraph) -> bool:
    return any(isinstance(vertex, Program) for vertex in graph.vertices)


class ProgramDisplay:
    """Another display, with the program's two streams on those of this process."""

    def __init__(self, shown: Display, client: BlockingClient, job_id: JobId) -> None:
        self._shown = shown
        self._client = client
        self._job_id = job_id
        self._offsets: dict[tuple[AttemptId, str], int] = {}

    def show(self, details: JobDetails) -> None:
        if not details.status.globally_terminal:
            self._shown.show(details)
        for region in details.regions:
            for attempt in (*region.former, region.current):
                self._print_news_of(attempt)
        if details.status.globally_terminal:
            self._shown.show(details)

    def say(self, text: str) -> None:
        self._shown.say(text)

    def set_aside(self) -> None:
        self._shown.set_aside()

    def close(self) -> None:
        self._shown.close()

    def _print_news_of(self, attempt: AttemptDetails) -> None:
        if attempt.state in _SILENT:
            return
        for stream in _STREAMS:
            key = (attempt.attempt, stream)
            if self._offsets.get(key) != _ALL_SEEN:
                self._offsets[key] = self._print(attempt, stream, self._offsets.get(key, 0))

    def _print(self, attempt: AttemptDetails, stream: str, offset: int) -> int:
        """The offset to go on from, or that all was seen."""
        target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        while True:
            try:
                piece = self._client.attempt_log(self._job_id, attempt.attempt, stream, offset)
            except NotFound:
                return _ALL_SEEN if attempt.state.terminal else offset
            except StokerError:
                # The next look asks again; a log must not end the watching of the job.
                return offset
            target.write(piece.data)
            target.flush()
            offset = piece.next_offset
            if piece.complete:
                return _ALL_SEEN
            if not piece.data:
                return offset


_ALL_SEEN = -1

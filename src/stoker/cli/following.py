"""Watching a job until its end, with Ctrl-C as the wish to cancel it."""

from collections.abc import Callable
from enum import Enum, auto

from stoker.cli.display import Display
from stoker.cli.options.attachment import Beat, detached
from stoker.client.blocking import BlockingClient
from stoker.core.errors import Conflict
from stoker.core.ids import JobId
from stoker.core.results import JobDetails

LOOK_SECONDS = 0.4
"""How old the picture of a running job may be."""


class Wish(Enum):
    """What the user wants after Ctrl-C."""

    CANCEL = auto()
    WATCH = auto()
    LEAVE = auto()


Ask = Callable[[], Wish]


def cancel_without_question() -> Wish:
    """Where nobody can be asked."""
    return Wish.CANCEL


class Left(Exception):
    """The user stopped watching; the job goes on."""


class Following:
    def __init__(
        self,
        client: BlockingClient,
        job_id: JobId,
        display: Display,
        ask: Ask,
        beat: Beat = detached,
    ) -> None:
        self._beat = beat
        self._client = client
        self._job_id = job_id
        self._display = display
        self._ask = ask
        self.interrupted = False

    def until_end(self, greeting: str = "") -> JobDetails:
        """The job at its end. Raises Left when the user leaves it running."""
        while True:
            try:
                if greeting:
                    # Within the reach of Ctrl-C, since it may well be the answer to this line.
                    self._display.say(greeting)
                    greeting = ""
                return self._watch()
            except KeyboardInterrupt:
                if self.interrupted:
                    raise
                self._answer()

    def _watch(self) -> JobDetails:
        while True:
            self._beat()
            details = self._client.job(self._job_id)
            self._display.show(details)
            if details.status.globally_terminal:
                return details
            self._client.wait_for_change(self._job_id, details.status, LOOK_SECONDS)

    def _answer(self) -> None:
        self._display.set_aside()
        try:
            wish = self._ask()
        except KeyboardInterrupt:
            wish = Wish.CANCEL
        match wish:
            case Wish.WATCH:
                return
            case Wish.LEAVE:
                raise Left
            case Wish.CANCEL:
                self.interrupted = True
                self._display.say(f"Cancelling job {self._job_id}.")
                try:
                    self._client.cancel(self._job_id)
                except Conflict as error:
                    # It ended while the question was asked.
                    self._display.say(error.message)

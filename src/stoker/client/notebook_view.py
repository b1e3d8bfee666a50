"""The picture of a job in a notebook, which changes in its place."""

import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from stoker.client.progress import job_html
from stoker.core.errors import StokerError
from stoker.core.results import JobDetails


class NotebookView:
    """Shown when it is made, where the output of the present cell goes."""

    def __init__(self, details: JobDetails) -> None:
        # Only notebooks have IPython, and only this class needs it.
        display = import_module("IPython.display").display
        self._is_over = details.status.globally_terminal
        self._view = display(_Picture(details), display_id=True)

    def update(self, details: JobDetails) -> None:
        # Outside of a notebook, IPython shows a picture once and has nothing to update.
        if self._view is not None:
            self._view.update(_Picture(details))

    def follow(self, watch: Callable[[], object]) -> None:
        """Call `watch`, which calls `update` until the job has ended, in the background."""
        if not self._is_over and self._view is not None:
            threading.Thread(
                target=_ignoring_errors, args=(watch,), name="stoker-notebook-view", daemon=True
            ).start()


class _Picture:
    """What IPython displays: HTML in a notebook, one line of text at a prompt."""

    def __init__(self, details: JobDetails) -> None:
        self._details = details

    def __repr__(self) -> str:
        return repr(self._details)

    def _repr_html_(self) -> str:
        return job_html(self._details)


def _ignoring_errors(watch: Callable[[], object]) -> None:
    # The picture stays as it was: the next call of the user tells what is wrong.
    with suppress(StokerError, RuntimeError):
        watch()

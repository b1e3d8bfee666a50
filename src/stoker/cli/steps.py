"""Telling what a slow command is doing: a spinner at a terminal, else a line for each step."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker.cli.terminal import say


@contextmanager
def steps(title: str) -> Iterator[Callable[[str], None]]:
    if not sys.stderr.isatty():
        say(f"{title}.")
        yield lambda text: say(f"  {text}")
        return
    # Here, since a pipe does not need it and it takes its time to import.
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(title) as spinner:
        yield lambda text: spinner.update(f"{title}: {text}")

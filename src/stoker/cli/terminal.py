"""What kind of output there is, and the question after Ctrl-C."""

import sys

import click

from stoker.cli.display import Display, PlainDisplay
from stoker.cli.following import Ask, Wish, cancel_without_question


def say(text: str) -> None:
    """To the error stream: standard output is for results."""
    click.echo(text, err=True)


def display_for_errors(*, quiet: bool = False, plain: bool = False) -> Display:
    """Live at a terminal, else or if `plain` only lines; `quiet` shows nothing."""
    if quiet:
        return PlainDisplay(lambda _text: None)
    if plain or not sys.stderr.isatty():
        return PlainDisplay(say)
    # Here, since a pipe does not need it and it takes its time to import.
    from rich.console import Console  # noqa: PLC0415

    from stoker.cli.live_display import LiveDisplay  # noqa: PLC0415

    return LiveDisplay(Console(stderr=True))


def ask_about_interrupt(*, can_leave: bool) -> Ask:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return cancel_without_question
    choices = "[y]es, [n]o, [d]etach and leave it running" if can_leave else "[y]es, [n]o"

    def ask() -> Wish:
        try:
            answer = input(f"\nCancel the job? {choices} (Ctrl-C again cancels): ")
        except EOFError:
            return Wish.CANCEL
        match answer.strip().lower()[:1]:
            case "y":
                return Wish.CANCEL
            case "d" if can_leave:
                return Wish.LEAVE
            case _:
                return Wish.WATCH

    return ask

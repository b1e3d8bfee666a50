"""What a job prints stands above the picture of the job at a terminal."""

from io import StringIO
from typing import Any

from rich.console import Console

from builders import build_details
from stoker.cli.live_display import LiveDisplay
from stoker.core.states import JobStatus


def test_only_whole_lines_are_printed_while_the_picture_is_shown(capfdbinary: Any) -> None:
    display = LiveDisplay(Console(file=StringIO(), force_terminal=True, width=80))
    display.show(build_details(JobStatus.RUNNING))
    display.print_output("stdout", b"one\ntw")
    assert capfdbinary.readouterr().out == b"one\n"
    display.show(build_details(JobStatus.RUNNING))
    display.print_output("stdout", b"o\nthree")
    assert capfdbinary.readouterr().out == b"two\n"
    display.show(build_details(JobStatus.FINISHED))
    assert capfdbinary.readouterr().out == b"three\n"
    display.close()


def test_the_picture_is_erased_before_output_and_drawn_again_below_it() -> None:
    screen = StringIO()
    display = LiveDisplay(Console(file=screen, force_terminal=True, width=80))
    display.show(build_details(JobStatus.RUNNING))
    drawn = screen.tell()
    display.print_output("stdout", b"a line\n")
    erased = screen.getvalue()[drawn:]
    # Erase the line: ESC [ 2 K.
    assert "\x1b[2K" in erased
    display.show(build_details(JobStatus.FINISHED))
    display.close()
    assert "FINISHED" in screen.getvalue()[drawn + len(erased) :]

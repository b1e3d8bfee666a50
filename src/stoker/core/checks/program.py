"""Is a program something that can be started: its script, its arguments, its environment."""

import re
from collections.abc import Iterator

from stoker.core.faults import Fault
from stoker.core.graph import JobGraph, Program

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_ARGUMENT_BYTES = 128 * 1024
"""What Linux takes as one argument or one variable at most."""


def program_faults(place: str, program: Program, graph: JobGraph) -> Iterator[Fault]:
    if len(graph.vertices) > 1:
        yield Fault(place, "it stands beside other vertices", "give the program a job of its own")
    names = {artifact.name for artifact in graph.artifacts}
    for what, name in (("script", program.script), ("requirements", program.requirements)):
        if name is not None and name not in names:
            yield Fault(place, f"its {what} '{name}' is not among the job's files", "add it")
    for argument in program.arguments:
        yield from _text_faults(place, "an argument", argument)
    for name, value in program.environment.items():
        if not _VARIABLE.fullmatch(name):
            yield Fault(
                place,
                f"'{name}' is not the name of an environment variable",
                "use letters, digits and '_', not beginning with a digit",
            )
        yield from _text_faults(place, f"the environment variable {name}", value)


def _text_faults(place: str, what: str, text: str) -> Iterator[Fault]:
    if "\0" in text:
        yield Fault(place, f"{what} has a zero byte in it", "remove it")
    elif len(text.encode(errors="replace")) >= MOST_ARGUMENT_BYTES:
        yield Fault(place, f"{what} is longer than an operating system takes", "put it into a file")

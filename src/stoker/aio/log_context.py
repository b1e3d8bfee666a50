"""Log fields: which component, job, attempt, task executor and epoch a log line is about.

A master runs many jobs, so a line such as "restarting in 5 s" says nothing without the job, and
every message would have to repeat it. Instead the scope that owns a fact binds it once, at its top:
the process its component, an election its epoch, a job master its job, a task its attempt.

The fields live in a context variable. A task starts with a copy of its creator's context, and an
endpoint answers calls in the context of the scope that runs it, so every line from inside a scope
carries the scope's fields. What outlives its creator, such as a spare process that one attempt
happened to order for the next, is started in a context `without` the creator's fields.

`stoker.processes.log_format` writes the fields into the lines.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context

LogField = str | int

_fields: ContextVar[Mapping[str, LogField]] = ContextVar("log fields")


def current_log_fields() -> Mapping[str, LogField]:
    return _fields.get({})


def bind_log_fields(**fields: LogField) -> None:
    """Add fields until the current task ends: for the first lines of a task's coroutine."""
    _fields.set({**current_log_fields(), **fields})


@contextmanager
def log_fields(**fields: LogField) -> Iterator[None]:
    """Add fields for the body and for the tasks that start in it."""
    token = _fields.set({**current_log_fields(), **fields})
    try:
        yield
    finally:
        # A coroutine that never finished is closed by the garbage collector, in the context of
        # whoever runs at that moment. The fields were never bound there, which `reset` reports.
        with suppress(ValueError):
            _fields.reset(token)


def without(*names: str) -> Context:
    """A copy of the current context, without these fields."""
    context = copy_context()
    kept = {name: value for name, value in current_log_fields().items() if name not in names}
    context.run(_fields.set, kept)
    return context

"""How a log record becomes a line: as text for people or as JSON for a log store.

Both add the fields of the scope that logged (`stoker.aio.log_context`), and neither shows a
credential: an error message may quote the parameters of a job.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from stoker.aio.log_context import current_log_fields
from stoker.config.processes import LogFormat, ProcessOptions
from stoker.core.errors import InvalidOption
from stoker.security.redaction import without_credentials

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class TextFormatter(logging.Formatter):
    """For example: `… INFO    stoker.jobmaster.job: RUNNING [component=jobmaster job=4f1c]`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        fields = " ".join(f"{name}={value}" for name, value in current_log_fields().items())
        return f"{line} [{fields}]" if fields else line

    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object for each line; a stack trace is a text in it."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_credentials(record.getMessage()),
            **current_log_fields(),
        }
        if record.exc_info:
            entry["stack_trace"] = without_credentials(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


@contextmanager
def log_to_error_stream(options: ProcessOptions) -> Iterator[None]:
    """Raises InvalidOption for an unknown level."""
    level = options.log_level.upper()
    if level not in LEVELS:
        raise InvalidOption(
            f"process.log-level is {options.log_level}; write one of {', '.join(LEVELS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    is_json = options.log_format is LogFormat.JSON
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    # httpx logs every request that a standby forwards to the leader.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)

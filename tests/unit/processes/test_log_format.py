"""Log lines as text and as JSON."""

import json
import logging
import sys

import pytest

from stoker.aio.log_context import log_fields
from stoker.config.processes import LogFormat, ProcessOptions
from stoker.core.errors import InvalidOption
from stoker.processes.log_format import JsonFormatter, TextFormatter, log_to_error_stream


def record_of(message: str, *, error: BaseException | None = None) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("stoker.test", logging.INFO, "test.py", 1, message, (), trace)


def test_a_text_line_ends_with_the_fields() -> None:
    with log_fields(component="jobmaster", job="4f1c", epoch=3):
        line = TextFormatter().format(record_of("RUNNING"))
    assert line.endswith("INFO    stoker.test: RUNNING [component=jobmaster job=4f1c epoch=3]")


def test_a_text_line_without_fields_has_no_brackets() -> None:
    assert TextFormatter().format(record_of("RUNNING")).endswith("stoker.test: RUNNING")


def test_the_fields_stand_before_a_stack_trace() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        record = record_of("failed", error=error)
    with log_fields(job="4f1c"):
        first, *others = TextFormatter().format(record).splitlines()
    assert first.endswith("failed [job=4f1c]")
    assert others[-1] == "ValueError: wrong"


def test_a_json_line_holds_the_fields_and_the_stack_trace() -> None:
    try:
        raise ValueError("cannot log in with password=swordfish;")
    except ValueError:
        record = logging.LogRecord(
            "stoker.test", logging.ERROR, "test.py", 1, "job %s", ("a\nb",), sys.exc_info()
        )
    with log_fields(component="jobmaster", epoch=3):
        line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == (
        "ERROR",
        "stoker.test",
        "job a\nb",
    )
    assert (entry["component"], entry["epoch"]) == ("jobmaster", 3)
    assert "swordfish" not in entry["stack_trace"]
    assert "ValueError" in entry["stack_trace"]


def test_the_option_chooses_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_error_stream(ProcessOptions(log_format=LogFormat.JSON)):
        logging.getLogger("stoker.test").info("leads")
    assert json.loads(capsys.readouterr().err)["message"] == "leads"


def test_an_unknown_level_is_refused() -> None:
    with (
        pytest.raises(InvalidOption, match=r"process\.log-level is LOUD"),
        log_to_error_stream(ProcessOptions(log_level="LOUD")),
    ):
        pass

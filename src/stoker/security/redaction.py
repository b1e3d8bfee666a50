"""Redaction of secrets in answers, logs and printed configuration.

A setting is secret by its name (`core/secrets.py`). Errors and the plan may quote a secret value (a
query contains the values of the parameters that it uses). So the values of names that are surely
secret are searched for in these texts, too.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from stoker.core.checkpoints import CheckpointEntry, Checkpoints
from stoker.core.results import Failure, FailureRecord, JobDetails
from stoker.core.secrets import MASK, SURELY_SECRET, is_secret

_SHORTEST = 4
"""Shorter values occur in any text; masking them would make it unreadable."""
_IN_URL = re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)")
_IN_TEXT = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential)[\w.-]*\s?=\s?)[^\s&;,'\")]+"
)


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        key: MASK if is_secret(key) else without_credentials(value)
        for key, value in settings.items()
    }


def without_credentials(text: str) -> str:
    """The text with users and passwords in URLs, and values like `password=…`, masked."""
    return _IN_TEXT.sub(rf"\1{MASK}", _IN_URL.sub(MASK, text))


def without_secrets(job: JobDetails) -> JobDetails:
    """The job as it may be shown."""
    values = secret_values(job.configuration | job.parameters)
    return msgspec.structs.replace(
        job,
        configuration=masked(job.configuration),
        parameters=masked(job.parameters),
        failures=tuple(_record(record, values) for record in job.failures),
        plan=tuple(
            msgspec.structs.replace(each, description=redact_text(each.description, values))
            for each in job.plan
        ),
        checkpoints=_redact_checkpoints(job.checkpoints, values),
    )


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """Values of secret settings, longest first, because one may be a part of another."""
    found = {
        value
        for key, value in settings.items()
        if SURELY_SECRET.search(key) and len(value) >= _SHORTEST
    }
    return sorted(found, key=len, reverse=True)


def redact_failure(failure: Failure, values: Iterable[str]) -> Failure:
    return msgspec.structs.replace(
        failure,
        message=redact_text(failure.message, values),
        stack_trace=redact_text(failure.stack_trace, values),
    )


def _redact_checkpoints(known: Checkpoints, values: list[str]) -> Checkpoints:
    def redact(entry: CheckpointEntry | None) -> CheckpointEntry | None:
        return None if entry is None else _redact_checkpoint(entry, values)

    restored = known.restored
    if restored is not None:
        restored = msgspec.structs.replace(restored, path=redact_text(restored.path, values))
    return msgspec.structs.replace(
        known,
        history=tuple(_redact_checkpoint(entry, values) for entry in known.history),
        latest_completed=redact(known.latest_completed),
        latest_savepoint=redact(known.latest_savepoint),
        latest_failed=redact(known.latest_failed),
        restored=restored,
        retained=redact(known.retained),
    )


def _redact_checkpoint(entry: CheckpointEntry, values: list[str]) -> CheckpointEntry:
    return msgspec.structs.replace(
        entry,
        path=None if entry.path is None else redact_text(entry.path, values),
        failure=None if entry.failure is None else redact_text(entry.failure, values),
    )


def _record(record: FailureRecord, values: list[str]) -> FailureRecord:
    return msgspec.structs.replace(
        record,
        failure=redact_failure(record.failure, values),
        concurrent=tuple(_record(each, values) for each in record.concurrent),
    )


def redact_text(text: str, values: Iterable[str]) -> str:
    """The text without these secret values, and without credentials."""
    for value in values:
        text = text.replace(value, MASK)
    return without_credentials(text)

"""Hiding what must not be shown."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from stoker.core.results import Failure, FailureRecord, JobDetails

MASK = "******"

_SECRET_WORDS = ("password", "secret", "token", "key", "credential")
_SURELY = re.compile(r"(?i)passw|pwd|secret|token|credential|(?:access|api|private|account).?key")
"""Names whose values are looked for in texts; a sort-key may be any word of an error."""
_SHORTEST = 4
"""A value of fewer letters is found in any text, and would make it unreadable."""
_IN_URL = re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)")
_IN_TEXT = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential)[\w.-]*\s?=\s?)[^\s&;,'\")]+"
)


def is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        key: MASK if is_secret(key) else without_credentials(value)
        for key, value in settings.items()
    }


def without_credentials(text: str) -> str:
    """Without what stands for a user in a URL, and without `password=…`."""
    return _IN_TEXT.sub(rf"\1{MASK}", _IN_URL.sub(MASK, text))


def without_secrets(job: JobDetails) -> JobDetails:
    """The job as it may be shown; an error may quote what it was given."""
    values = secret_values(job.configuration | job.parameters)
    return msgspec.structs.replace(
        job,
        configuration=masked(job.configuration),
        parameters=masked(job.parameters),
        failures=tuple(_record(record, values) for record in job.failures),
        plan=tuple(
            msgspec.structs.replace(each, description=without_credentials(each.description))
            for each in job.plan
        ),
    )


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """The longest first: one may be a part of another."""
    found = {
        value for key, value in settings.items() if _SURELY.search(key) and len(value) >= _SHORTEST
    }
    return sorted(found, key=len, reverse=True)


def shown_failure(failure: Failure, values: Iterable[str]) -> Failure:
    return msgspec.structs.replace(
        failure,
        message=_without(failure.message, values),
        stack_trace=_without(failure.stack_trace, values),
    )


def _record(record: FailureRecord, values: list[str]) -> FailureRecord:
    return msgspec.structs.replace(
        record,
        failure=shown_failure(record.failure, values),
        concurrent=tuple(_record(each, values) for each in record.concurrent),
    )


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return without_credentials(text)

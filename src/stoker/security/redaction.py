"""Redaction of secrets in answers, logs and printed configuration.

A setting is secret by its name (`core/secrets.py`). Errors and the plan may quote a secret value (a
query contains the values of the parameters that it uses). So the values of names that are surely
secret are searched for in these texts, too.

A text may come from anybody: from a job, from a client, from a library. So credentials are found by
their form as well: `password=x`, `--password x`, `"password": "x"`, users and passwords in URLs,
and the tokens of HTTP headers.

Invariant: redaction takes time in proportion to the length of the text, whatever the text is,
because it runs on the event loop. So every part of a text is read a limited number of times:
repetitions are possessive or bounded, and no search begins again inside what another one has read.
"""

import re
from collections.abc import Collection, Mapping

import msgspec

from stoker.core.checkpoints import CheckpointEntry, Checkpoints
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Program, Sink, Source
from stoker.core.results import Failure, FailureRecord, JobDetails
from stoker.core.secrets import MASK, SURELY_SECRET, is_secret

_SHORTEST = 4
"""Shorter values occur in any text; masking them would make it unreadable."""
_PLAIN_VALUES = frozenset({"true", "false", "none", "null"})
"""Values that are no secrets, whatever their setting is called."""
_MOST_VALUES = 1000
"""Texts of a job with more secret values are masked as a whole: to search them takes too long."""
LONGEST_DESCRIPTION = 1000
"""In characters. The description of a vertex holds its whole query or all program arguments."""
_LONGEST_CREDENTIAL = 1000

_USER_IN_URL = re.compile(r"""(?<=://)[^\s/"'<>]*@""")
"""Up to the last @ before the path, since a password may contain one."""
_USER_OF_ORACLE = re.compile(r"(?i)(jdbc:oracle:[a-z0-9]{1,9}:)[^\s/@]{1,128}/[^\s@]{1,256}(?=@)")
_BEARER = re.compile(r"(?i)(\bbearer[ \t]{1,3})([a-z0-9._~+/=-]{6,}+)")
_LONGEST_WORD = 20
"""After the word bearer, a shorter run of letters alone is prose."""
_STOKER_TOKEN = re.compile(r"\bstk_[0-9A-Za-z]{1,32}_[\w-]++")

PARTS_OF_NAMES = ("pass", "pw", "secret", "token", "credential", "key", "authorization")
"""Every name that is surely secret has one of them; most texts have none, which is soon seen."""
_PART = re.compile("|".join(PARTS_OF_NAMES))
_PART_IN_ANY_CASE = re.compile(_PART.pattern, re.IGNORECASE)
_HEADER = "authorization"
_BEFORE_NAME = 11
"""Letters that belong to a secret name in two words, such as `access key`."""
_REST_OF_NAME = re.compile(r"[\w.-]*+")
_LONGEST_NAME = 64
_SIGN = re.compile(r"""(?P<quote>\\?["'])?[ \t]{0,3}+(?P<sign>=>|=(?!=)|:(?!/))[ \t]{0,3}+""")
_GAP = re.compile(r"""(?:\\?["'])?(?:,[ \t]{0,3}+|[ \t]{1,3}+)(?!-)""")
"""Between an argument such as --password and its value, in a command or in a list."""
_QUOTES = ('\\"', '"', "'")
"""The first one is a quote in a JSON text that is quoted in another one."""
_SCHEME = re.compile(r"(?i)(?:basic|bearer|digest|negotiate)[ \t]{1,3}+")
_VALUE = re.compile(
    r"""  \\"(?:[^"\\\n]|\\[^"\n])*+(?:\\")?
        | "(?:[^"\\\n]|\\[^\n])*+"?
        | '(?:[^'\\\n]|\\[^\n])*+'?
        | [^\s&;,'")]++
    """,
    re.VERBOSE,
)
_BEFORE_KEY = tuple(",;:{[(|-\n")
"""What stands in front of a key in YAML, in a header or in a list; a sentence has a word there."""


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        key: MASK if is_secret(key) else without_credentials(value)
        for key, value in settings.items()
    }


def without_credentials(text: str) -> str:
    """The text without the credentials that are recognised by their form."""
    if "://" in text:
        text = _USER_IN_URL.sub(_mask_user, text)
    if "oracle:" in text:
        text = _USER_OF_ORACLE.sub(rf"\1{MASK}", text)
    lowered = text.lower()
    if any(part in lowered for part in PARTS_OF_NAMES):
        text = _mask_named_values(text, lowered)
    if "bearer" in lowered:
        text = _BEARER.sub(_mask_bearer, text)
    return _STOKER_TOKEN.sub(MASK, text) if "stk_" in text else text


def _mask_user(user: re.Match[str]) -> str:
    """A user alone is no secret."""
    return f"{MASK}@" if ":" in user[0] else user[0]


def _mask_bearer(header: re.Match[str]) -> str:
    is_word = header[2].isalpha() and len(header[2]) < _LONGEST_WORD
    return header[0] if is_word else f"{header[1]}{MASK}"


def _mask_named_values(text: str, lowered: str) -> str:
    """Mask the values of all names that are surely secret."""
    pieces: list[str] = []
    copied = read = 0
    # A few letters have two letters in lower case, and then the places differ.
    is_aligned = len(lowered) == len(text)
    parts = _PART.finditer(lowered) if is_aligned else _PART_IN_ANY_CASE.finditer(text)
    for part in parts:
        # A name may contain several such parts, and a value may look like another name.
        if part.start() < read:
            continue
        name = _start_of_name(text, part.start())
        rest = _REST_OF_NAME.match(text, part.end())
        read = rest.end() if rest is not None else part.end()
        if not _is_secret_name(text, name, read):
            continue
        span = _span_of_value(text, name, read)
        if span is not None:
            first, last = span
            pieces += (text[copied:first], MASK)
            copied = read = last
    return "".join((*pieces, text[copied:])) if pieces else text


def _is_secret_name(text: str, name: int, end: int) -> bool:
    found = SURELY_SECRET.finditer(text, max(0, name - _BEFORE_NAME), end)
    return any(each.end() > name for each in found) or text[name:end].lower().endswith(_HEADER)


def _start_of_name(text: str, at: int) -> int:
    earliest = max(0, at - _LONGEST_NAME)
    while at > earliest and (text[at - 1].isalnum() or text[at - 1] in "_.-"):
        at -= 1
    return at


def _span_of_value(text: str, name: int, end_of_name: int) -> tuple[int, int] | None:
    """Where the value of the name lies, without its quotes; None if the name has no value."""
    sign = _SIGN.match(text, end_of_name)
    if sign is not None and (sign["sign"] != ":" or _is_key(text, name, sign)):
        begin = sign.end()
    elif text.startswith("-", name) and (gap := _GAP.match(text, end_of_name)) is not None:
        begin = gap.end()
    else:
        return None
    scheme = _SCHEME.match(text, begin)
    value = _VALUE.match(text, begin if scheme is None else scheme.end())
    if value is None:
        return None
    first, last = begin, value.end()
    for quote in _QUOTES:
        if text.startswith(quote, first):
            first += len(quote)
            closed = last - first >= len(quote) and text.endswith(quote, first, last)
            return first, last - len(quote) if closed else last
    return first, last


def _is_key(text: str, name: int, sign: re.Match[str]) -> bool:
    """Whether `name: value` is an entry and not a part of a sentence.

    Decided before the value is read: a value that stays would be read again as something else.
    """
    at = sign.end()
    if sign["quote"] or text.startswith(_QUOTES, at) or _SCHEME.match(text, at) is not None:
        return True
    before = text[max(0, name - 8) : name].rstrip(" \t\"'")
    return not before or before.endswith(_BEFORE_KEY)


def without_secrets(job: JobDetails) -> JobDetails:
    """The job as it may be shown."""
    values = secret_values(job.configuration | job.parameters)
    return msgspec.structs.replace(
        job,
        configuration=masked(job.configuration),
        parameters=masked(job.parameters),
        failures=tuple(_record(record, values) for record in job.failures),
        plan=tuple(
            msgspec.structs.replace(each, description=_redact_description(each.description, values))
            for each in job.plan
        ),
        checkpoints=_redact_checkpoints(job.checkpoints, values),
    )


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """Values of secret settings, longest first, because one may be a part of another."""
    found = {
        value
        for key, value in settings.items()
        if SURELY_SECRET.search(key)
        and len(value) >= _SHORTEST
        and value.lower() not in _PLAIN_VALUES
    }
    return sorted(found, key=len, reverse=True)


def secret_values_of(graph: JobGraph) -> list[str]:
    """All secret values that the graph of a job holds; its details do not have all of them."""
    found = {*secret_values(graph.configuration), *secret_values(graph.parameters)}
    for vertex in graph.vertices:
        match vertex:
            case (
                Source(read=FormatRead(options=settings))
                | Sink(write=FormatWrite(options=settings))
            ):
                found.update(secret_values(settings))
            case Program(environment=settings):
                found.update(secret_values(settings))
            case _:
                pass
    return sorted(found, key=len, reverse=True)


def redact_failure(failure: Failure, values: Collection[str]) -> Failure:
    return msgspec.structs.replace(
        failure,
        message=redact_text(failure.message, values),
        stack_trace=redact_text(failure.stack_trace, values),
        place=redact_text(failure.place, values),
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


def _redact_description(text: str, values: list[str]) -> str:
    """Cut before it is redacted, but so far behind its end that no half of a secret is left."""
    margin = max(_LONGEST_CREDENTIAL, len(values[0]) if values else 0)
    redacted = redact_text(text[: LONGEST_DESCRIPTION + margin], values)
    if len(redacted) <= LONGEST_DESCRIPTION:
        return redacted
    return f"{redacted[: LONGEST_DESCRIPTION - 1]}…"


def redact_text(text: str, values: Collection[str]) -> str:
    """The text without these secret values, and without credentials."""
    if len(values) > _MOST_VALUES:
        return MASK
    for value in values:
        text = text.replace(value, MASK)
    return without_credentials(text)

"""The base classes of all HTTP bodies, and the bodies that many operations share."""

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP body. Where Flink has the same one, the fields have Flink's names."""


class Dashed(Answer, frozen=True, kw_only=True, rename="kebab"):
    """A body with names like `start-time`; a few fields have a name of their own."""


class Camel(Answer, frozen=True, kw_only=True, rename="camel"):
    """A body with names like `startTime`."""


class Nothing(Answer, frozen=True, kw_only=True):
    """`{}`: the request was accepted, and there is no more to say."""


class Errors(Answer, frozen=True, kw_only=True):
    """Body of every answer with a status of 400 or more."""

    errors: list[str]


RETRY_AFTER = "Retry-After"
"""Header of a 503 or 429: seconds to wait before the next try.

A 429 without it is of a limit that waiting alone does not help."""

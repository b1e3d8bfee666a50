"""The base of all HTTP answers."""

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A body as it stands on the wire; fields are renamed to the names that Flink uses."""


class Dashed(Answer, frozen=True, kw_only=True, rename="kebab"):
    """An answer whose fields are written with dashes; a few have a name of their own."""


class Camel(Answer, frozen=True, kw_only=True, rename="camel"):
    """An answer whose fields are written in camel case."""


class Nothing(Answer, frozen=True, kw_only=True):
    """`{}`: the request was accepted, and there is nothing to say about it."""


class Errors(Answer, frozen=True, kw_only=True):
    """The body of every answer from 400 on."""

    errors: list[str]


RETRY_AFTER = "Retry-After"
"""Header of a 503: seconds after which asking again makes sense."""

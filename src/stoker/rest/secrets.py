"""Hiding what must not be shown."""

from collections.abc import Mapping

MASK = "******"

_SECRET_WORDS = ("password", "secret", "token", "key", "credential")


def is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: MASK if is_secret(key) else value for key, value in settings.items()}

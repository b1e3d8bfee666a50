"""Spark's monitoring page, which only those can open who know its key.

The page shows statements, plans, paths, session ids and stacks of all jobs, and every user of the
machine can reach its port. So Spark asks for a signed token (a JWT with HMAC-SHA256), by a filter
that it ships. The key is in the settings of the Spark server or driver.

A URL given to `open_page` may contain such a token in place of a password. Whoever sets
`spark.ui.filters` without this filter opens the page to all; Stoker then asks it in the same way.
"""

import base64
import hashlib
import hmac
import json
import secrets
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

FILTERS = "spark.ui.filters"
FILTER = "org.apache.spark.ui.JWSFilter"
KEY = f"spark.{FILTER}.param.secretKey"
_KEY_BYTES = 32
_USER = "stoker"

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ignores proxies of the environment, since Spark's page is on this machine."""


def new_page_key() -> str:
    return _base64(secrets.token_bytes(_KEY_BYTES))


def page_settings(key: str) -> dict[str, str]:
    """Settings of a Spark whose page asks for a token made with this key."""
    return {FILTERS: FILTER, KEY: key}


def page_key_in(settings: Mapping[str, str]) -> str:
    """The key of a Spark with these settings; empty if its page is open to all."""
    return settings.get(KEY, "") if FILTER in settings.get(FILTERS, "") else ""


def page_token(key: str) -> str:
    """A token that the page accepts as long as Spark runs."""
    header = _base64(json.dumps({"alg": "HS256"}).encode())
    content = f"{header}.{_base64(json.dumps({'sub': _USER}).encode())}"
    padded = key + "=" * (-len(key) % 4)
    signature = hmac.digest(base64.urlsafe_b64decode(padded), content.encode(), hashlib.sha256)
    return f"{content}.{_base64(signature)}"


def with_token(url: str, key: str) -> str:
    """The URL of a page with a token for it; the same URL for an empty key."""
    if not key:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{_USER}:{page_token(key)}@{parts.netloc}"))


def without_token(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def open_page(url: str, *, seconds: float) -> Any:
    """The decoded answer to a question to the page's API; raises OSError."""
    parts = urlsplit(url)
    request = urllib.request.Request(without_token(url))
    if parts.password:
        request.add_header("Authorization", f"Bearer {parts.password}")
    with _direct.open(request, timeout=seconds) as answer:
        return json.load(answer)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

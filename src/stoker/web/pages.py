"""Web pages that a master serves. They load nothing from other machines."""

from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class Page:
    file: str
    media_type: str


PAGES = {
    "/": Page(file="docs.html", media_type="text/html; charset=utf-8"),
    "/docs": Page(file="docs.html", media_type="text/html; charset=utf-8"),
    "/docs.js": Page(file="docs.js", media_type="text/javascript; charset=utf-8"),
    "/docs.css": Page(file="docs.css", media_type="text/css; charset=utf-8"),
    "/icon.svg": Page(file="icon.svg", media_type="image/svg+xml"),
}


@cache
def content_of(file: str) -> bytes:
    return resources.files("stoker.web").joinpath(file).read_bytes()

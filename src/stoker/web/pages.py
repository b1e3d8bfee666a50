"""Web pages that a master serves. They load nothing from other machines.

The page for people is built from web/ (`make web`) into static/. Its files are known by name when
the process starts, so the path of a request never meets a directory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What a browser lets the page do: nothing but load its own files and ask its own server."""
_FOREVER = "public, max-age=31536000, immutable"
"""For files whose names follow from their content."""
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, kw_only=True)
class Page:
    file: str
    """Path below the package."""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES[self.file.rsplit(".", 1)[1]]


_ISOLATED = (
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_OF_THE_API = {
    "/docs": Page(file="docs.html"),
    "/docs.js": Page(file="docs.js"),
    "/docs.css": Page(file="docs.css"),
    "/icon.svg": Page(file="icon.svg"),
}


def _package() -> Traversable:
    return resources.files("stoker.web")


def _start_page() -> Page:
    """The built page; in a checkout without it, one that says how to build it."""
    is_built = _package().joinpath("static", "index.html").is_file()
    file = "static/index.html" if is_built else "unbuilt.html"
    return Page(file=file, headers=(("Content-Security-Policy", _POLICY), *_ISOLATED))


def _assets() -> Iterator[tuple[str, Page]]:
    assets = _package().joinpath("static", "assets")
    if not assets.is_dir():
        return
    for file in assets.iterdir():
        if file.name.rsplit(".", 1)[-1] in _MEDIA_TYPES:
            headers = (("Cache-Control", _FOREVER), *_ISOLATED)
            yield f"/assets/{file.name}", Page(file=f"static/assets/{file.name}", headers=headers)


PAGES = {"/": _start_page(), **_OF_THE_API, **dict(_assets())}
"""By the path of the request."""


@cache
def content_of(file: str) -> bytes:
    return _package().joinpath(*file.split("/")).read_bytes()

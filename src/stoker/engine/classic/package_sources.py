"""From where the packages of jobs come: what the operator has decided for all of them."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import InvalidOption
from stoker.engine.classic.options import NO_INDEX, ClassicOptions

_INDEX_VARIABLES = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
)
"""Variables by which the environment of the task executor would name other sources."""


@dataclass(frozen=True, kw_only=True)
class PackageSources:
    """Arguments and variables of installers, of pip and uv alike."""

    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    constraints: Path | None = None
    source_distributions: bool = True
    packages_only: bool = False
    """Whether a list may name nothing but packages."""

    def arguments(self) -> list[str]:
        arguments = [part for place in self.find_links for part in ("--find-links", place)]
        if self.index_url == NO_INDEX:
            arguments.append("--no-index")
        if self.constraints is not None:
            arguments += ["--constraint", str(self.constraints)]
        if not self.source_distributions:
            arguments += ["--only-binary", ":all:"]
        return arguments

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the installer. Its URL may hold a password, so it is no argument."""
        if self.index_url is None and not self.find_links:
            return dict(inherited)
        kept = {name: value for name, value in inherited.items() if name not in _INDEX_VARIABLES}
        # Their files may name further indexes.
        kept |= {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}
        if self.index_url is None or self.index_url == NO_INDEX:
            return kept
        return kept | {"PIP_INDEX_URL": self.index_url, "UV_DEFAULT_INDEX": self.index_url}

    def digest(self) -> bytes:
        """Environments that were installed from other sources are not used; empty by default.

        Raises InvalidOption if the constraints cannot be read.
        """
        if self == PackageSources():
            return b""
        settings = (self.index_url, self.find_links, self.source_distributions, self.packages_only)
        return hashlib.sha256(repr(settings).encode() + self._constraints()).digest()

    def _constraints(self) -> bytes:
        if self.constraints is None:
            return b""
        try:
            return self.constraints.read_bytes()
        except OSError as error:
            raise InvalidOption(
                f"python-environment.constraints: {self.constraints} cannot be read: "
                f"{error.strerror}; make it readable for the task executor, or correct the path"
            ) from error


def package_sources(options: ClassicOptions) -> PackageSources:
    """Raises InvalidOption if the constraints cannot be read."""
    sources = PackageSources(
        index_url=options.index_url,
        find_links=options.find_links,
        constraints=options.constraints and options.constraints.expanduser().absolute(),
        source_distributions=options.source_distributions,
        packages_only=options.packages_only,
    )
    sources.digest()
    return sources

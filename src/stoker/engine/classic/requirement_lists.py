"""What a job's list of requirements may name.

A list travels alone: a file that it names by a relative path is not there. And where the operator
has decided from where packages come, a list may name packages only. It is then written again from
what was understood of it, so that no installer finds more in it than was checked.
"""

import re

from packaging.requirements import InvalidRequirement, Requirement

_FILE_OPTIONS = (
    "-r",
    "--requirement",
    "-c",
    "--constraint",
    "-e",
    "--editable",
    "-f",
    "--find-links",
)
_ARCHIVES = (".whl", ".zip", ".tar.gz")
_HASH = re.compile(r"\s--hash=([a-z0-9]+:[0-9a-f]+)")
_COMMENT = re.compile(r"(^|\s)#.*$")


def relative_paths(text: str) -> list[str]:
    """Relative paths in a list of requirements; their files are not sent with the job."""
    return [
        f"line {number}: {path}"
        for number, line in enumerate(text.splitlines(), 1)
        if (path := _path_in(line)) is not None
    ]


def _path_in(line: str) -> str | None:
    entry = line.partition(" #")[0].strip()
    option, _, value = entry.replace("=", " ", 1).partition(" ")
    if option in _FILE_OPTIONS:
        entry = value.strip()
    elif not (entry.startswith(("./", "../")) or _is_archive(entry)):
        return None
    return None if not entry or entry.startswith("/") or "://" in entry else entry


def _is_archive(entry: str) -> bool:
    return " @ " not in entry and entry.partition(";")[0].strip().endswith(_ARCHIVES)


def packages_in(text: str) -> tuple[list[str], list[str]]:
    """The packages that a list names, and the lines that name something else.

    A package is a name with versions, extras, markers and hashes. Something else is an option, a
    path, or a URL.
    """
    packages, others = [], []
    for number, line in _whole_lines(text):
        package = _package_in(line)
        if package is None:
            others.append(f"line {number}: {line}")
        else:
            packages.append(package)
    return packages, others


def _whole_lines(text: str) -> list[tuple[int, str]]:
    """Lines with content, each with its number; those that end with a backslash go on."""
    found: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        first, before = begun or (number, "")
        whole = before + _COMMENT.sub("", line)
        if whole.endswith("\\"):
            begun = (first, whole[:-1])
            continue
        begun = None
        if whole.strip():
            found.append((first, whole.strip()))
    if begun is not None and begun[1].strip():
        found.append((begun[0], begun[1].strip()))
    return found


def _package_in(line: str) -> str | None:
    hashes = _HASH.findall(line)
    try:
        requirement = Requirement(_HASH.sub("", line))
    except InvalidRequirement:
        return None
    if requirement.url is not None:
        return None
    return " ".join([str(requirement), *(f"--hash={each}" for each in hashes)])

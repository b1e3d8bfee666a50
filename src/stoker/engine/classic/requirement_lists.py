"""What stands in a list of requirements that only its author's machine could find. Pure."""

_OF_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-f", "--find-links")
_PACKED = (".whl", ".zip", ".tar.gz")


def relative_paths(text: str) -> list[str]:
    """As written, each with its line: the list travels alone, and leaves them behind."""
    return [
        f"line {number}: {path}"
        for number, line in enumerate(text.splitlines(), 1)
        if (path := _path_in(line)) is not None
    ]


def _path_in(line: str) -> str | None:
    entry = line.partition(" #")[0].strip()
    option, _, value = entry.replace("=", " ", 1).partition(" ")
    if option in _OF_FILES:
        entry = value.strip()
    elif not (entry.startswith(("./", "../")) or _is_packed(entry)):
        return None
    return None if not entry or entry.startswith("/") or "://" in entry else entry


def _is_packed(entry: str) -> bool:
    return " @ " not in entry and entry.partition(";")[0].strip().endswith(_PACKED)

"""How a user types `stoker` on this machine: a virtual environment may not be on the PATH."""

import shlex
import shutil
import sys
from pathlib import Path


def own_command() -> str:
    """The command that runs now, in words that work in every directory."""
    own = Path(sys.executable).parent / "stoker"
    found = shutil.which("stoker")
    if found is not None and any(_is_same(found, each) for each in (own, Path(sys.argv[0]))):
        return "stoker"
    if own.is_file():
        return shlex.quote(str(own))
    return f"{shlex.quote(sys.executable)} -m stoker.cli.main"


def _is_same(found: str, other: Path) -> bool:
    return other.is_file() and Path(found).samefile(other)

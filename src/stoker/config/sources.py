"""Where settings come from: which file, which environment variables, the command line.

`may_be_set` answers without reading anything whether there are any settings at all: a command that
needs none skips the import of the option tree, which takes longer than its own work.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.core.errors import InvalidOption
from stoker.core.faults import did_you_mean
from stoker.core.options import read_pair

if TYPE_CHECKING:
    # Every command imports this module, and the option tree is slow to import.
    from stoker.config.tree import OptionTree
    from stoker.config.values import Raw

FILE_NAME = "stoker.yml"
NAMING = "STOKER_CONFIG"
"""Environment variable that names the file."""
VARIABLE_PREFIX = "STOKER_"
RESERVED_VARIABLES = frozenset(
    {
        "STOKER_CONFIG",
        "STOKER_DEBUG",
        "STOKER_FAILPOINT",
        "STOKER_HOME",
        "STOKER_LOCAL_CLUSTER",
        "STOKER_MASTER",
        "STOKER_OWNER",
        "STOKER_SPARK_SERVER",
    }
)
"""Variables that begin with the prefix but are not options."""
_ROOT = 0


@dataclass(frozen=True, kw_only=True)
class Setting:
    key: str
    raw: "Raw"
    place: str
    """Where it is written, in words: a file and line, a variable, -D."""


def find_file(
    named: Path | None, environment: Mapping[str, str], *, folder: Path, home: Path
) -> Path | None:
    """The file to read. A named file must exist; the usual ones need not."""
    for path, source in ((named, "--config"), (environment.get("STOKER_CONFIG"), "STOKER_CONFIG")):
        if path:
            found = Path(path).expanduser()
            if not found.is_file():
                raise InvalidOption(
                    f"the configuration file {found} (from {source}) does not exist; "
                    "correct the path or leave it out",
                    path=str(found),
                )
            return found
    usual = (folder / FILE_NAME, home / ".config" / "stoker" / FILE_NAME)
    return next((path for path in usual if path.is_file()), None)


def check_is_own(path: Path) -> None:
    """Refuse a file of the current directory that another user has written, or could write.

    Nobody has named it, and its settings decide which code runs.
    """
    status = path.stat()
    if status.st_uid in (os.geteuid(), _ROOT) and not status.st_mode & stat.S_IWOTH:
        return
    raise InvalidOption(
        f"the configuration file {path} belongs to another user, or every user may write to it; "
        f"if you trust it, name it: --config {path}",
        path=str(path),
    )


def may_be_set(environment: Mapping[str, str], *, folder: Path, home: Path) -> bool:
    """Whether a file or a variable may set an option; a wrong name counts, to be reported."""
    return (
        "STOKER_CONFIG" in environment
        or any(map(_may_name_an_option, environment))
        or find_file(None, {}, folder=folder, home=home) is not None
    )


def _may_name_an_option(variable: str) -> bool:
    return variable.startswith(VARIABLE_PREFIX) and variable not in RESERVED_VARIABLES


def settings_in_environment(environment: Mapping[str, str], tree: "OptionTree") -> list[Setting]:
    settings = []
    for variable, text in sorted(environment.items()):
        if not _may_name_an_option(variable):
            continue
        option = tree.by_variable.get(variable)
        if option is None:
            raise InvalidOption(_unknown_variable(variable, tree), variable=variable)
        settings.append(Setting(key=option.key, raw=text, place=f"environment variable {variable}"))
    return settings


def _unknown_variable(variable: str, tree: "OptionTree") -> str:
    hint = did_you_mean(variable, tree.by_variable, "unset it; see stoker config --all")
    return f"environment variable {variable} names no option; {hint}"


def settings_on_command_line(definitions: Sequence[str]) -> list[Setting]:
    """Each definition is `key=value`, as given to -D; the last one of a key wins."""
    settings = []
    for definition in definitions:
        pair = read_pair(definition)
        if pair is None:
            raise InvalidOption(f"-D {definition}: write it as -D key=value", definition=definition)
        key, text = pair
        settings.append(Setting(key=key, raw=text, place=f"-D {key}"))
    return settings

"""Where settings come from: the environment, the command line, and where a file may be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.config.tree import VARIABLE_PREFIX, OptionTree
from stoker.config.values import Raw
from stoker.core.errors import InvalidOption
from stoker.core.faults import suggestion
from stoker.core.options import read_pair

FILE_NAME = "stoker.yml"
OTHER_VARIABLES = frozenset(
    {
        "STOKER_CONFIG",
        "STOKER_DEBUG",
        "STOKER_FAILPOINT",
        "STOKER_FIRST_SEED",
        "STOKER_HOME",
        "STOKER_LOCAL_CLUSTER",
        "STOKER_MASTER",
        "STOKER_SEEDS",
    }
)
"""Variables with our prefix that are no options."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    key: str
    raw: Raw
    place: str
    """Where it was written, in words for a person."""


def find_file(
    named: Path | None, environment: Mapping[str, str], *, folder: Path, home: Path
) -> Path | None:
    """The file to read: the one that was named must be there, the usual ones may be."""
    for path, source in ((named, "--config"), (environment.get("STOKER_CONFIG"), "STOKER_CONFIG")):
        if path:
            found = Path(path).expanduser()
            if not found.is_file():
                raise InvalidOption(
                    f"the configuration file {found} (from {source}) is not there; "
                    "correct the path or leave it out",
                    path=str(found),
                )
            return found
    usual = (folder / FILE_NAME, home / ".config" / "stoker" / FILE_NAME)
    return next((path for path in usual if path.is_file()), None)


def settings_in_environment(environment: Mapping[str, str], tree: OptionTree) -> list[Setting]:
    settings = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable in OTHER_VARIABLES:
            continue
        option = tree.by_variable.get(variable)
        if option is None:
            raise InvalidOption(_unknown_variable(variable, tree), variable=variable)
        settings.append(Setting(key=option.key, raw=text, place=f"environment variable {variable}"))
    return settings


def _unknown_variable(variable: str, tree: OptionTree) -> str:
    hint = suggestion(variable, tree.by_variable, "unset it, or see the list of options")
    return f"environment variable {variable} names no option; {hint}"


def settings_on_command_line(definitions: Sequence[str]) -> list[Setting]:
    """Each is `key=value`, as given to -D; the last one wins."""
    settings = []
    for definition in definitions:
        pair = read_pair(definition)
        if pair is None:
            raise InvalidOption(f"-D {definition}: write it as -D key=value", definition=definition)
        key, text = pair
        settings.append(Setting(key=key, raw=text, place=f"-D {key}"))
    return settings

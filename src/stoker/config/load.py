"""Join the sources: defaults, file, environment, command line; the later one wins.

All unknown keys and unreadable values are reported at once, each with the place where it is
written, so that nobody has to correct a configuration one start at a time. Two faults are reported
alone, before all others: a file that is not YAML, and an unknown environment variable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.config.configuration import Configuration
from stoker.config.sources import (
    FILE_NAME,
    NAMING,
    Setting,
    check_is_own,
    find_file,
    settings_in_environment,
    settings_on_command_line,
)
from stoker.config.tree import OptionTree
from stoker.config.values import allowed, parse
from stoker.core.errors import InvalidOption
from stoker.core.faults import did_you_mean
from stoker.core.secrets import MASK, is_secret

SPARK_PREFIX = "spark."
PROCESS_DEFAULT = "default of this command"


def load(
    tree: OptionTree,
    *,
    environment: Mapping[str, str],
    file: Path | None = None,
    definitions: Sequence[str] = (),
    folder: Path | None = None,
    home: Path | None = None,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Configuration:
    """Read all sources. Raises InvalidOption, which names the place of each fault.

    `defaults` are defaults of this process alone, which every source overrides.
    `file` is the argument of --config. Without it the usual file is searched in `folder` and
    `home`, by default the current directory and the user's home.
    """
    here = (folder or Path.cwd()) / FILE_NAME
    path = find_file(file, environment, folder=here.parent, home=home or Path.home())
    folder_file = path if path == here and not file and not environment.get(NAMING) else None
    if folder_file is not None:
        check_is_own(folder_file)
    configuration = configuration_from(
        tree,
        [
            *(Setting(key=key, raw=raw, place=PROCESS_DEFAULT) for key, raw in defaults.items()),
            *(_settings_in_file(path, tree) if path else []),
            *settings_in_environment(environment, tree),
            *settings_on_command_line(definitions),
        ],
    )
    for owner in tree.owners:
        configuration.of(owner)
    return replace(configuration, folder_file=folder_file)


def _settings_in_file(path: Path, tree: OptionTree) -> list[Setting]:
    # Imported late: YAML is slow to import, and often there is no file.
    from stoker.config.file import settings_in_file  # noqa: PLC0415

    return settings_in_file(path, tree.holds_pairs)


def configuration_from(tree: OptionTree, settings: Iterable[Setting]) -> Configuration:
    """Later settings of a key replace earlier ones, which must be valid all the same."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    spark: dict[str, str] = {}
    faults: list[InvalidOption] = []
    for setting in settings:
        try:
            if setting.key.startswith(SPARK_PREFIX) and setting.key not in tree.by_key:
                spark[setting.key] = _spark_text(setting)
            else:
                values[setting.key] = _typed(tree, setting)
        except InvalidOption as fault:
            faults.append(fault)
        origins[setting.key] = setting.place
    if faults:
        raise _joined(faults)
    return Configuration(tree=tree, values=values, origins=origins, spark=spark)


def _spark_text(setting: Setting) -> str:
    if not isinstance(setting.raw, str):
        raise InvalidOption(f"{setting.place}: {setting.key} must be text", key=setting.key)
    return setting.raw


def _typed(tree: OptionTree, setting: Setting) -> Any:
    option = tree.by_key.get(setting.key)
    if option is None:
        hint = did_you_mean(setting.key, tree.by_key, "see stoker config --all")
        raise InvalidOption(
            f"{setting.place}: there is no option {setting.key}; {hint}", key=setting.key
        )
    try:
        return parse(option.type, setting.raw)
    except ValueError as error:
        shown = MASK if option.secret or is_secret(option.key) else repr(setting.raw)
        raise InvalidOption(
            f"{setting.place}: {shown} is not a value for {setting.key}; "
            f"write {allowed(option.type)}",
            key=setting.key,
        ) from error


def _joined(faults: Sequence[InvalidOption]) -> InvalidOption:
    if len(faults) == 1:
        return faults[0]
    listing = "".join(f"\n  {fault.message}" for fault in faults)
    return InvalidOption(f"{len(faults)} settings are wrong:{listing}", **faults[0].facts)

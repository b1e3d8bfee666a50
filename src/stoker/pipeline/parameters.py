"""Parameters of a job: declared with defaults, set by `--param day=…`, inserted for `${day}`."""

import re
from collections.abc import Iterable, Mapping

from stoker.core.faults import Fault, did_you_mean

JOB_DIRECTORY = "job_directory"
"""Parameter that every job has: the directory of its file."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A second dollar sign escapes: `$${day}` gives `${day}`.
_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Substitution:
    """Replaces `${name}` in texts and collects a fault for each unknown name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.faults: list[Fault] = []

    def text(self, text: str, *, place: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            escaped, name = match.groups()
            if escaped:
                return match.group()[1:]
            if name in self._values:
                return self._values[name]
            self.faults.append(
                Fault(
                    place,
                    f"'${{{name}}}' refers to no parameter",
                    f"{did_you_mean(name, self._values)} or write '$${{{name}}}' to keep it",
                )
            )
            return match.group()

        return _REFERENCE.sub(value_of, text)

    def optional(self, text: str | None, *, place: str) -> str | None:
        return None if text is None else self.text(text, place=place)

    def options(self, options: Mapping[str, str], *, place: str) -> dict[str, str]:
        return {key: self.text(value, place=place) for key, value in options.items()}


def resolve(
    declared: Mapping[str, str | None],
    given: Mapping[str, str],
    *,
    job_directory: str,
    declaration: str,
) -> tuple[dict[str, str], list[Fault]]:
    """The value of every declared parameter, and the faults of the given ones.

    `declaration` tells how a job of this kind declares the parameter `{name}`.
    """
    faults = [*_bad_names(declared)]
    for name in given:
        if name not in declared:
            remedy = (
                did_you_mean(name, declared)
                if declared
                else f"the job declares no parameters; {declaration.format(name=name)}"
            )
            faults.append(Fault(f"parameter '{name}'", "the job has no such parameter", remedy))
    defaults = Substitution({JOB_DIRECTORY: job_directory})
    values: dict[str, str] = {}
    for name, default in declared.items():
        if name in given:
            values[name] = given[name]
        elif default is None:
            faults.append(Fault(f"parameter '{name}'", "it has no value", f"give --param {name}=…"))
            values[name] = ""
        else:
            values[name] = defaults.text(default, place=f"parameter '{name}'")
    return values, [*faults, *defaults.faults]


def _bad_names(names: Iterable[str]) -> Iterable[Fault]:
    for name in names:
        if name == JOB_DIRECTORY:
            yield Fault(
                f"parameter '{name}'", "every job has this parameter already", "choose another name"
            )
        elif not _NAME.fullmatch(name):
            yield Fault(
                f"parameter '{name}'",
                "the name has characters that are not allowed",
                "use letters, digits and '_'",
            )

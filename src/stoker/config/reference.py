"""Write the reference page of all options: `python -m stoker.config.reference FILE`."""

import sys
from itertools import groupby
from pathlib import Path

from stoker.config.options import ALL
from stoker.config.tree import Option, OptionTree
from stoker.config.values import format_value, type_name

INTRODUCTION = """\
# Configuration

This page is generated from the options of each part: `make docs` writes it, a test compares it.

An option can be set in three places; a later one wins over an earlier one:

1. in a file: the one named by `--config`, else by `STOKER_CONFIG`, else `stoker.yml` in the
   current directory, else `~/.config/stoker/stoker.yml`. Keys may be dotted
   (`heartbeat.interval: 5 s`) or nested;
2. by an environment variable: `STOKER_` and the key in capitals, with underscores for dots and
   dashes (`STOKER_HEARTBEAT_INTERVAL`);
3. on the command line: `-D heartbeat.interval="5 s"`.

An unknown key is an error, unless it starts with `spark.`: such settings are passed to Spark as
they are (from the file and the command line only). The values of keys that name a password,
secret, token or key are never shown.

Durations have a unit: `100 ms`, `10 s`, `5 min`, `1 h`. Sizes may have one: `4096`, `64 kb`,
`512 mb`, `1 gb`. Write a list as `a, b, c` or as a YAML list, and pairs as
`name:value, other:value` or as a YAML mapping.
"""


def render(tree: OptionTree) -> str:
    ordered = sorted(tree.by_key.values(), key=lambda option: (option.part, option.key))
    sections = [
        _section(part, list(options)) for part, options in groupby(ordered, lambda one: one.part)
    ]
    return "\n".join([INTRODUCTION, *sections])


def _section(part: str, options: list[Option]) -> str:
    rows = "".join(f"| {' | '.join(_cells(option))} |\n" for option in options)
    return f"## {part}\n\n| key | default | type | meaning |\n|---|---|---|---|\n{rows}"


def _cells(option: Option) -> tuple[str, ...]:
    default = format_value(option.default)
    secret = " Secret." if option.secret else ""
    return (
        f"`{option.key}`",
        f"`{default}`" if default else "empty",
        _escaped(type_name(option.type)),
        _escaped(option.meaning.rstrip(".") + ".") + secret,
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str]) -> None:
    target = Path(arguments[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(OptionTree(ALL)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

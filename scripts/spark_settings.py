"""Writes the names of Spark's settings, as the classes of the installed Spark hold them."""

import re
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_WITH_SETTINGS = re.compile(r"(SQLConf|config/|Config|Conf(\$|\.class))")
_NAME = re.compile(rb"spark\.[a-z][A-Za-z0-9]*(\.[A-Za-z0-9_-]+)+")
_CONSTANT = re.compile(rb"\x01(..)(?=spark\.)", re.DOTALL)
"""A text in the constants of a class: a mark, its length, then its bytes."""


def names_in(jars: Path) -> Iterator[str]:
    for jar in sorted(jars.glob("spark-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class") and _WITH_SETTINGS.search(entry):
                    yield from _names(archive.read(entry))


def _names(content: bytes) -> Iterator[str]:
    for found in _CONSTANT.finditer(content):
        end = found.end() + int.from_bytes(found[1], "big")
        text = content[found.end() : end]
        if _NAME.fullmatch(text):
            yield text.decode()


def main() -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    names = sorted(set(names_in(Path(spec.origin).parent / "jars")))
    Path(sys.argv[1]).write_text("\n".join(names) + "\n")


if __name__ == "__main__":
    main()

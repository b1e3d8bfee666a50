"""Write the stored bytes of a new release: `PYTHONPATH=tests python -m compatibility.write 0.1`."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.core.values import Value
from stoker.ha.record import encode

HERE = Path(__file__).parent


def write(folder: Path, values: Mapping[str, Value | bytes]) -> None:
    for name, value in values.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else encode(value))


def main(arguments: Sequence[str]) -> None:
    (release,) = arguments
    folder = HERE / release
    if folder.exists():
        sys.exit(f"{folder} exists: the bytes of a release are written once and never changed")
    values = importlib.import_module(f"compatibility.release_{release.replace('.', '_')}")
    write(folder / "coordinator", values.COORDINATOR)
    write(folder / "storage", values.STORAGE)


if __name__ == "__main__":
    main(sys.argv[1:])

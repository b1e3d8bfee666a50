"""Can this Python, on this platform, install the wheel?"""

import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stoker.core.faults import Fault


def wheel_fault(path: Path, place: str) -> Fault | None:
    try:
        _, _, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        return Fault(
            place,
            "this is not the name of a wheel",
            "a wheel is called like example-1.0-py3-none-any.whl",
        )
    here = list(sys_tags())
    if tags.isdisjoint(here):
        wanted = ", ".join(sorted(str(tag) for tag in tags))
        return Fault(
            place,
            f"the wheel is for another platform or Python: {wanted}",
            f"get the one for {here[0]}, or one that ends in -none-any.whl",
        )
    return _content_fault(path, place)


def distributions_in(wheels: Iterable[Path]) -> frozenset[str]:
    """The names of what the wheels install, in their canonical spelling."""
    names = set()
    for wheel in wheels:
        with suppress(InvalidWheelFilename):
            names.add(str(parse_wheel_filename(wheel.name)[0]))
    return frozenset(names)


def _content_fault(path: Path, place: str) -> Fault | None:
    remedy = "build or download it again"
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            names = archive.namelist()
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        return Fault(place, f"the wheel is damaged: {error}", remedy)
    if damaged is not None:
        return Fault(place, f"the wheel is damaged: bad checksum of {damaged}", remedy)
    if not any(name.endswith(".dist-info/METADATA") for name in names):
        return Fault(place, "the file is a zip, but no wheel: it has no METADATA", remedy)
    return None

"""The files beside a script that it imports, found without running it."""

import ast
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker.pipeline.program_scan import imports

_SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file in an archive: equal content makes equal archives."""


def local_modules_of(script: Path, tree: ast.Module) -> list[Path]:
    """Modules and packages of the script's directory that it needs, directly or through others."""
    directory = script.absolute().parent
    found: dict[str, Path] = {}
    waiting = list(_roots(tree))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _located(directory, name)
        if path is None or path == script.absolute():
            continue
        found[name] = path
        for file in _sources(path):
            # What is no Python fails where it is imported, with Python's own words.
            with suppress(SyntaxError, ValueError, OSError):
                waiting.extend(_roots(ast.parse(file.read_bytes())))
    return sorted(found.values())


def zip_package(package: Path, target_directory: Path) -> Path:
    """An archive from which Python can import the package."""
    target = target_directory / f"{package.name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files(package):
            entry = zipfile.ZipInfo(str(file.relative_to(package.parent)), _SAME_TIME)
            archive.writestr(entry, file.read_bytes())
    return target


def _roots(tree: ast.Module) -> Iterator[str]:
    for name, _ in imports(tree):
        yield name.split(".")[0]


def _located(directory: Path, name: str) -> Path | None:
    if (directory / name / "__init__.py").is_file():
        return directory / name
    module = directory / f"{name}.py"
    return module if module.is_file() else None


def _sources(path: Path) -> list[Path]:
    return [path] if path.is_file() else [f for f in _files(path) if f.suffix == ".py"]


def _files(package: Path) -> list[Path]:
    found = []
    for directory, folders, names in os.walk(package):
        folders[:] = [folder for folder in folders if folder != "__pycache__"]
        found += [Path(directory, name) for name in names]
    return sorted(found)

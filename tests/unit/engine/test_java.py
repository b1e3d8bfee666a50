"""Finding Java, with scripts in place of real JVMs."""

import asyncio
from pathlib import Path

import pytest

from stoker.core.errors import StartupFailed
from stoker.engine.java import find_java


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    executable.chmod(0o755)
    return home


async def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.2")
    on_path = fake_java(tmp_path / "other", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}
    java = await find_java(environ, tmp_path / "shim")
    assert (java.home, java.version) == (home, 21)


async def test_the_java_on_the_path_is_used_when_java_home_is_too_old(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "17.0.1")
    java = await find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path / "shim")
    assert (java.home, java.version) == (new, 17)


async def test_a_java_that_cannot_start_is_passed_over(tmp_path: Path) -> None:
    broken = fake_java(tmp_path / "broken", "21.0.2")
    (broken / "bin" / "java").write_bytes(b"not a program of this machine")
    new = fake_java(tmp_path / "new", "17.0.1")
    java = await find_java({"JAVA_HOME": str(broken), "PATH": str(new / "bin")}, tmp_path / "shim")
    assert java.home == new


async def test_a_java_that_is_too_old_is_named_with_version_and_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    with pytest.raises(StartupFailed) as raised:
        await find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path / "shim")
    assert f"Java 8 at {old}/bin/java" in str(raised.value)
    assert "pip install 'stoker[java]'" in str(raised.value)


async def test_without_any_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match=r"install Java 17\+, or pip install 'stoker\[java\]'"):
        await find_java({"PATH": ""}, tmp_path / "shim")


async def test_the_bundled_java_starts_without_its_missing_module(tmp_path: Path) -> None:
    bundled = tmp_path / "bundled"
    (bundled / "bin").mkdir(parents=True)
    executable = bundled / "bin" / "java"
    executable.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "25.0.2"\' >&2 && exit\n'
        'printf "%s|" "$@" > "$0.arguments"\n'
    )
    executable.chmod(0o755)
    java = await find_java({"PATH": ""}, tmp_path / "shim", bundled_home=bundled)
    assert (java.home, java.version) == (tmp_path / "shim", 25)
    process = await asyncio.create_subprocess_exec(
        str(java.home / "bin" / "java"), "-a b", "--add-modules=jdk.incubator.vector", "C"
    )
    assert await process.wait() == 0
    assert (bundled / "bin" / "java.arguments").read_text() == "-a b|C|"

import hashlib
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker import Pipeline
from stoker.core.graph import Artifact, ArtifactKind

Refusal = Callable[[Callable[[], object]], str]
WriteFile = Callable[[str, str], Path]


def job(**artifacts: list[str]) -> Pipeline:
    p = Pipeline("p", **artifacts)  # type: ignore[arg-type]
    p.source("raw", format="csv", path="x")
    p.sink("raw", format="noop")
    return p


def make_wheel(
    path: Path,
    metadata: str = "example-1.0.dist-info/METADATA",
    compression: int = zipfile.ZIP_STORED,
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("example/__init__.py", "x = 1\n" * 100)
        archive.writestr(metadata, "Name: example\n")
    return path


def test_artifacts_are_described_by_content(write: WriteFile, tmp_path: Path) -> None:
    write("tool.py", "x = 1\n")
    wheel = make_wheel(tmp_path / "example-1.0-py3-none-any.whl")
    graph = job(python_files=["tool.py"], wheels=[wheel.name]).build(base_directory=tmp_path)
    assert graph.artifacts == (
        Artifact(
            name="tool.py",
            kind=ArtifactKind.PYTHON,
            sha256=hashlib.sha256(b"x = 1\n").hexdigest(),
            size=6,
        ),
        Artifact(
            name=wheel.name,
            kind=ArtifactKind.WHEEL,
            sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
            size=wheel.stat().st_size,
        ),
    )


@pytest.mark.parametrize(
    "name",
    [
        "example-1.0-cp311-cp311-win_amd64.whl",
        "example-1.0-cp27-none-any.whl",
        "example-1.0-cp311-cp311-macosx_11_0_arm64.whl",
    ],
)
def test_a_wheel_for_another_platform_is_refused(
    name: str, tmp_path: Path, refusal: Refusal
) -> None:
    make_wheel(tmp_path / name)
    message = refusal(lambda: job(wheels=[name]).build(base_directory=tmp_path))
    assert "the wheel is for another platform or Python: " in message
    assert "or one that ends in -none-any.whl" in message


def test_a_wheel_for_this_platform_is_accepted(tmp_path: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    name = f"example-1.0-cp39-abi3-{platform}.whl"
    make_wheel(tmp_path / name)
    assert job(wheels=[name]).build(base_directory=tmp_path).artifacts[0].name == name


def test_a_corrupt_wheel_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    wheel = make_wheel(tmp_path / "example-1.0-py3-none-any.whl")
    whole = wheel.read_bytes()
    build = job(wheels=[wheel.name]).build
    wheel.write_bytes(whole[: len(whole) // 2])
    assert "the wheel is damaged: File is not a zip file (build or download it again)" in refusal(
        lambda: build(base_directory=tmp_path)
    )
    wheel.write_bytes(whole.replace(b"x = 1\n", b"x = 2\n", 1))
    assert "the wheel is damaged: bad checksum of example/__init__.py" in refusal(
        lambda: build(base_directory=tmp_path)
    )


def test_a_wheel_with_damaged_compressed_data_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    name = "example-1.0-py3-none-any.whl"
    wheel = make_wheel(tmp_path / name, compression=zipfile.ZIP_DEFLATED)
    whole = bytearray(wheel.read_bytes())
    begin = whole.index(b"example/__init__.py") + len(b"example/__init__.py")
    whole[begin] = 0xFF
    wheel.write_bytes(whole)
    message = refusal(lambda: job(wheels=[name]).build(base_directory=tmp_path))
    assert "the wheel is damaged: Error -3 while decompressing data" in message


def test_a_zip_that_is_not_a_wheel_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    wheel = make_wheel(tmp_path / "example-1.0-py3-none-any.whl", metadata="README")
    message = refusal(lambda: job(wheels=[wheel.name]).build(base_directory=tmp_path))
    assert "the file is a zip, but not a wheel: it has no METADATA" in message


@pytest.mark.parametrize(
    ("artifacts", "message"),
    [
        ({"wheels": ["example.whl"]}, "this is not the name of a wheel"),
        ({"python_files": ["none.py"]}, "none.py': there is no such file (correct the path)"),
        ({"python_files": ["folder"]}, "folder': this is a directory"),
        ({"python_files": ["example.whl"]}, "wheels go to wheels=, others to files="),
        ({"files": ["example.whl", "folder/example.whl"]}, "2 files have this name"),
    ],
)
def test_an_unusable_file_is_refused(
    artifacts: dict[str, list[str]],
    message: str,
    write: WriteFile,
    tmp_path: Path,
    refusal: Refusal,
) -> None:
    (tmp_path / "folder").mkdir()
    write("example.whl", "")
    write("folder/example.whl", "")
    assert message in refusal(lambda: job(**artifacts).build(base_directory=tmp_path))

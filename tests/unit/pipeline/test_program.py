"""A script becomes a job without being run."""

import ast
import zipfile
from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput, InvalidJobGraph
from stoker.core.graph import ArtifactKind, EngineKind, Program
from stoker.pipeline.building import LoadedJob
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.program import load_program, local_modules_of


def script(directory: Path, source: str, name: str = "job.py") -> Path:
    file = directory / name
    file.write_text(source)
    return file


def load(file: Path, **more: object) -> LoadedJob:
    settings = JobSettings(**more)  # type: ignore[arg-type]
    return load_program(file, ast.parse(file.read_text()), settings)


def test_a_script_is_one_vertex_with_its_arguments_and_its_file(tmp_path: Path) -> None:
    file = script(tmp_path, "raise SystemExit('never run at submission')")
    loaded = load(file, arguments=("a", "b c"), environment={"DAY": "1"})
    (vertex,) = loaded.graph.vertices
    assert isinstance(vertex, Program)
    assert (vertex.script, vertex.arguments, vertex.environment) == (
        "job.py",
        ("a", "b c"),
        {"DAY": "1"},
    )
    assert loaded.graph.name == "job"
    assert loaded.graph.engine is EngineKind.CLASSIC
    assert loaded.files == {"job.py": file}


def test_modules_beside_the_script_are_packed_with_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "__init__.py").write_text("import other")
    (tmp_path / "deep" / "data.txt").write_text("7")
    (tmp_path / "other.py").write_text("def broken(:")
    (tmp_path / "unused.py").write_text("")
    file = script(tmp_path, "import sys, helper\nfrom deep.er import x")
    (tmp_path / "helper.py").write_text("import job")
    assert [p.name for p in local_modules_of(file, ast.parse(file.read_text()))] == [
        "deep",
        "helper.py",
        "other.py",
    ]
    loaded = load(file)
    kinds = {artifact.name: artifact.kind for artifact in loaded.graph.artifacts}
    assert kinds == {
        "deep.zip": ArtifactKind.PYTHON,
        "helper.py": ArtifactKind.PYTHON,
        "other.py": ArtifactKind.PYTHON,
        "job.py": ArtifactKind.FILE,
    }
    with zipfile.ZipFile(loaded.files["deep.zip"]) as archive:
        assert sorted(archive.namelist()) == ["deep/__init__.py", "deep/data.txt"]


def test_packing_the_same_modules_again_gives_the_same_artifact(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "__init__.py").write_text("x = 1")
    file = script(tmp_path, "import deep")
    first, second = (load(file).graph.artifacts for _ in range(2))
    assert first == second


def test_requirements_travel_as_a_file(tmp_path: Path) -> None:
    listed = tmp_path / "needs.txt"
    listed.write_text("example==1.0")
    loaded = load(script(tmp_path, ""), requirements=listed)
    (vertex,) = loaded.graph.vertices
    assert isinstance(vertex, Program)
    assert vertex.requirements == "needs.txt"
    assert loaded.files["needs.txt"] == listed


def test_requirements_on_the_shared_server_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="leave --engine connect out"):
        load(script(tmp_path, ""), requirements=tmp_path / "needs.txt", engine="connect")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"wheels": (Path("none-1.0-py3-none-any.whl"),)}, "there is no such file"),
        ({"environment": {"1DAY": "x"}}, "'1DAY' is not the name of an environment variable"),
        ({"arguments": ("a\0b",)}, "an argument has a zero byte"),
        ({"arguments": ("x" * 200_000,)}, "longer than the operating system allows"),
        ({"environment": {"DAY": "x" * (2**17 - 4)}}, "longer than the operating system allows"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(
    tmp_path: Path, more: dict[str, object], fault: str
) -> None:
    with pytest.raises(InvalidJobGraph, match=fault):
        load(script(tmp_path, ""), **more)

"""The source tree: small folders, unique class names, docstrings that are sentences."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "stoker"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
FOLDERS = sorted({path.parent for path in MODULES})

MOST_MODULES = 25
"""A folder with more modules cannot be taken in at a glance."""


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_a_folder_holds_few_enough_modules_to_be_a_table_of_contents(folder: Path) -> None:
    assert len([path for path in MODULES if path.parent == folder]) <= MOST_MODULES


def test_every_module_says_what_it_is_for() -> None:
    assert [relative(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_no_class_name_stands_for_two_things() -> None:
    homes = defaultdict(list)
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(relative(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_no_docstring_is_a_genitive_fragment() -> None:
    """Not "Of the supervisor." but "Process id of the supervisor, not of the driver."."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.startswith("Of ")
    ]
    assert found == []

"""Which loaded modules are the user's own."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from stoker.pipeline.local_modules import local_modules


@pytest.mark.parametrize(
    ("place", "is_own"),
    [
        ("helpers.py", True),
        ("package/__init__.py", True),
        ("my-site-packages/helpers.py", True),
        (".venv/lib/python3.11/site-packages/helpers.py", False),
        ("/usr/lib/python3/dist-packages/helpers.py", False),
        ("../beside/helpers.py", False),
        ("/elsewhere/helpers.py", False),
    ],
)
def test_a_package_installed_below_the_root_is_not_a_local_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, is_own: bool
) -> None:
    root = tmp_path / "project"
    module = ModuleType("loaded_for_this_test")
    module.__file__ = str(Path(root, place).resolve())
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert (module in local_modules(root)) is is_own

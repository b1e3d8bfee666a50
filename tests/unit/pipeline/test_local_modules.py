"""Which loaded modules are the user's own."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from stoker.pipeline.local_modules import JOB_MODULE, local_modules, root_of


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


def test_the_file_of_a_job_is_local_although_it_is_shipped_in_an_installed_package() -> None:
    """Its functions travel with the job: nobody can import it by the name it is loaded under."""
    shipped = ModuleType(f"{JOB_MODULE}orders")
    shipped.__file__ = "/lib/python3.11/site-packages/stoker/examples/orders.py"
    assert root_of(shipped) == Path("/lib/python3.11/site-packages/stoker/examples")
    other = ModuleType("orders")
    other.__file__ = shipped.__file__
    assert root_of(other) is None

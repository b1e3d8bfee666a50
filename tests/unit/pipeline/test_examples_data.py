import importlib.util
from pathlib import Path

MAKE_DATA = Path(__file__).parents[3] / "examples" / "make_data.py"


def test_the_data_of_the_examples_is_the_same_each_time(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_data", MAKE_DATA)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_data(tmp_path / "a")
    module.make_data(tmp_path / "b")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 10
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()

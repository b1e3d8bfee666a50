"""The catalogue, the code that measures, and the reference page agree."""

import ast
from pathlib import Path

import pytest

from stoker.metrics import catalogue
from stoker.metrics.catalogue import CATALOGUE
from stoker.metrics.definitions import MetricDefinition
from stoker.metrics.reference import main, render

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "stoker"
DEFINED = {
    name: value for name, value in vars(catalogue).items() if isinstance(value, MetricDefinition)
}


def imported_definitions() -> set[str]:
    """Names that modules import from the catalogue, in order to measure."""
    return {
        alias.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "stoker.metrics.catalogue"
        for alias in node.names
    }


def test_every_metric_of_the_catalogue_is_measured_somewhere() -> None:
    assert set(DEFINED) - imported_definitions() == set()


def test_nothing_is_measured_that_is_not_in_the_catalogue() -> None:
    """A definition can be made in no other module, and the catalogue keeps all of them."""
    makers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "MetricDefinition"
    }
    assert makers == {"metrics/catalogue.py"}
    assert {each.name for each in CATALOGUE} == {each.name for each in DEFINED.values()}


@pytest.mark.parametrize("definition", DEFINED.values(), ids=lambda each: each.name)
def test_a_meaning_is_a_sentence(definition: MetricDefinition) -> None:
    assert definition.help[0].isupper() or definition.help[0].isdigit()
    assert definition.help.endswith(".")
    assert "|" not in definition.help


def test_the_reference_page_is_up_to_date(tmp_path: Path) -> None:
    page = ROOT / "docs" / "reference" / "metrics.md"
    assert page.read_text() == render(), "run: make docs"
    main([str(tmp_path / "metrics.md")])
    assert (tmp_path / "metrics.md").read_text() == render()

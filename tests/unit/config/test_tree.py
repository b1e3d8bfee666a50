"""Options collected from their classes."""

import importlib
from dataclasses import dataclass, is_dataclass
from pathlib import Path

import pytest

import stoker
from stoker.config.options import ALL
from stoker.config.tree import OptionTree, variable_of
from stoker.core.faults import closest
from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class Doors:
    count: int = option("house.doors", "How many doors.", 2)


@dataclass(frozen=True, kw_only=True)
class SameKey:
    doors: int = option("house.doors", "The same again.", 3)


@dataclass(frozen=True, kw_only=True)
class SameVariable:
    doors: int = option("house-doors", "Another key, but the same variable.", 3)


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    content: bytes = option("content", "No text stands for this.", b"")


@dataclass(frozen=True, kw_only=True)
class Plain:
    count: int = 1


def test_an_option_knows_its_class_type_and_default() -> None:
    found = OptionTree([Doors]).by_key["house.doors"]
    assert (found.owner, found.field, found.type, found.default) == (Doors, "count", int, 2)
    assert found.variable == variable_of("house.doors") == "STOKER_HOUSE_DOORS"


@pytest.mark.parametrize("other", [SameKey, SameVariable])
def test_two_options_cannot_share_a_key_or_a_variable(other: type) -> None:
    with pytest.raises(ValueError, match=r"collides with house\.doors of Doors"):
        OptionTree([Doors, other])


def test_a_field_that_no_text_can_set_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read from text"):
        OptionTree([Unreadable])
    with pytest.raises(ValueError, match=r"Plain\.count is not made by option"):
        OptionTree([Plain])


def test_only_a_similar_name_is_suggested() -> None:
    tree = OptionTree([Doors])
    assert closest("house.door", tree.by_key) == "house.doors"
    assert closest("quite.different", tree.by_key) is None


def test_all_options_of_stoker_make_one_tree_with_a_meaning_for_each() -> None:
    tree = OptionTree(ALL)
    assert "heartbeat.interval" in tree.by_key
    assert [key for key, each in tree.by_key.items() if not each.meaning.strip()] == []


PACKAGES_WITHOUT_OPTIONS = {"core", "config"}
"""In these packages, `options.py` declares and joins options and defines none."""


def options_classes_on_disk() -> set[type]:
    package = Path(stoker.__file__).parent
    files = [
        path
        for path in package.rglob("options.py")
        if path.parent.name not in PACKAGES_WITHOUT_OPTIONS
    ]
    names = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in files]
    # Options of whole processes, and options that both sides of a gateway must agree on.
    names += ["stoker.config.processes", "stoker.gateways.leases"]
    modules = [importlib.import_module(name) for name in names]
    return {
        each
        for module in modules
        for each in vars(module).values()
        if is_dataclass(each) and isinstance(each, type) and each.__module__ == module.__name__
    }


def test_every_options_class_is_part_of_the_tree() -> None:
    assert set(ALL) == options_classes_on_disk()

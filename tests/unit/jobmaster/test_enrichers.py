"""Enrichers from plug-ins label failures and never harm the job."""

import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from stoker.core.results import Failure, FailureRecord
from stoker.jobmaster import enrichers
from stoker.jobmaster.enrichers import Enrichers, load_enrichers

RECORD = FailureRecord(
    failure=Failure(error="Boom", message="x", labels={"cause": "user-code"}), at=1
)


class FixedEnricher:
    def __init__(self, keys: set[str], answer: Mapping[str, str]) -> None:
        self.keys = frozenset(keys)
        self.answer = answer

    def labels(self, record: FailureRecord) -> Mapping[str, str]:
        return self.answer


class RaisingEnricher:
    keys = frozenset({"a"})

    def labels(self, record: FailureRecord) -> Mapping[str, str]:
        raise LookupError("broken plug-in")


class UndeclaredEnricher:
    """Violates the protocol: it does not say which labels it may give."""

    def labels(self, record: FailureRecord) -> Mapping[str, str]:
        return {"a": "1"}


class HangingEnricher:
    keys = frozenset({"a"})

    def __init__(self) -> None:
        self.release = threading.Event()

    def labels(self, record: FailureRecord) -> Mapping[str, str]:
        self.release.wait()
        return {"a": "too late"}


async def test_labels_of_several_plugins_are_merged() -> None:
    """Each plug-in declares the keys of its own labels (FAIL-11)."""
    plugins = {"one": FixedEnricher({"a"}, {"a": "1"}), "two": FixedEnricher({"b"}, {"b": "2"})}
    assert await Enrichers(plugins=plugins).plugin_labels(RECORD) == {"a": "1", "b": "2"}


async def test_undeclared_duplicate_and_failed_labels_are_dropped() -> None:
    """The labels of other plug-ins are not affected (FAIL-12)."""
    plugins = {
        "raising": RaisingEnricher(),
        "without keys": UndeclaredEnricher(),
        "good": FixedEnricher({"a"}, {"a": "1"}),
        "undeclared": FixedEnricher({"b"}, {"c": "3"}),
        "clashing": FixedEnricher({"a", "d"}, {"a": "9", "d": "4"}),
        "over the built-in": FixedEnricher({"cause"}, {"cause": "mine"}),
        "no text": FixedEnricher({"e"}, {"e": 5}),  # type: ignore[dict-item]
    }
    assert await Enrichers(plugins=plugins).plugin_labels(RECORD) == {"a": "1"}


async def test_a_hanging_plugin_loses_only_its_own_labels() -> None:
    """The labels of other plug-ins are kept (FAIL-12)."""
    hanging = HangingEnricher()
    plugins = {
        "before": FixedEnricher({"b"}, {"b": "1"}),
        "hanging": hanging,
        "after": FixedEnricher({"c"}, {"c": "2"}),
    }
    try:
        labels = await Enrichers(
            plugins=plugins, timeout=timedelta(milliseconds=500)
        ).plugin_labels(RECORD)
        assert labels == {"b": "1", "c": "2"}
    finally:
        hanging.release.set()


def test_the_built_in_enricher_labels_at_once_unless_it_is_disabled() -> None:
    """It is disabled by a list that does not name it (FAIL-11)."""
    lost = Failure(error="TaskExecutorLost", message="gone")
    assert Enrichers().label_now(lost).labels == {"cause": "task-executor-lost"}
    assert load_enrichers((), timedelta(seconds=1)).label_now(lost).labels == {}
    assert load_enrichers(("cause",), timedelta(seconds=1)).label_now(lost).labels


def test_only_named_plugins_that_can_be_loaded_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken or absent plug-in does not stop the others (FAIL-11)."""
    group = "stoker.failure_enrichers"
    monkeypatch.setitem(sys.modules, "plugin_for_test", _module())  # type: ignore[arg-type]
    entries = EntryPoints(
        [
            EntryPoint("team", "plugin_for_test:good", group),
            EntryPoint("broken", "plugin_for_test:bad", group),
            EntryPoint("unnamed", "plugin_for_test:good", group),
        ]
    )
    monkeypatch.setattr(enrichers, "entry_points", lambda group: entries)
    loaded = load_enrichers(("team", "broken", "absent"), timedelta(seconds=1))
    assert set(loaded.plugins) == {"team"}
    assert not loaded.causes


def _module() -> object:
    class Module:
        @staticmethod
        def good() -> FixedEnricher:
            return FixedEnricher({"team"}, {"team": "ingest"})

        @staticmethod
        def bad() -> FixedEnricher:
            raise ImportError("its library is missing")

    return Module

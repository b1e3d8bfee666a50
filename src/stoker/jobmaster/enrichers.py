"""Failure enrichers: the built-in one and plug-ins that label the failures of jobs.

A plug-in is an entry point of the group `stoker.failure_enrichers`: a callable without arguments
that returns a FailureEnricher. A plug-in that raises, hangs or cannot be loaded costs its labels
and nothing else.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Protocol

import msgspec

from stoker.aio.scope import TaskScope
from stoker.core.results import Failure, FailureRecord
from stoker.jobmaster.failures import label_cause

log = logging.getLogger(__name__)

GROUP = "stoker.failure_enrichers"
BUILT_IN = "cause"


class FailureEnricher(Protocol):
    keys: frozenset[str]
    """Labels that the enricher may give; others are dropped."""

    def labels(self, record: FailureRecord) -> Mapping[str, str]:
        """Labels for a failure. Runs in a thread with a time limit; exceptions are logged."""
        ...


@dataclass(frozen=True, kw_only=True)
class Enrichers:
    causes: bool = True
    """Whether the built-in enricher labels causes."""
    plugins: Mapping[str, FailureEnricher] = field(default_factory=dict)
    timeout: timedelta = timedelta(seconds=10)

    def label_now(self, failure: Failure) -> Failure:
        if not self.causes or not (labels := label_cause(failure)):
            return failure
        return msgspec.structs.replace(failure, labels={**failure.labels, **labels})

    async def plugin_labels(self, record: FailureRecord) -> dict[str, str]:
        """Labels of the plug-ins that answer in time and keep to their declared keys."""
        async with TaskScope("enrichers") as scope:
            # All at once: a plug-in that hangs must not use up the time of those after it.
            asked = {
                name: scope.spawn(name, _ask(name, plugin, record))
                for name, plugin in self.plugins.items()
            }
            if asked:
                await asyncio.wait(asked.values(), timeout=self.timeout.total_seconds())
            answers = {name: task.result() for name, task in asked.items() if task.done()}
        for name in asked.keys() - answers.keys():
            log.warning("failure enricher %s did not answer in time", name)
        return merge_labels(answers, record.failure.labels)


def merge_labels(
    answers: Mapping[str, Mapping[str, str]], present: Mapping[str, str]
) -> dict[str, str]:
    """Merge the labels of enrichers; one that gives a key already present loses all its labels."""
    labels: dict[str, str] = {}
    for name, answer in answers.items():
        clashes = answer.keys() & (labels.keys() | present.keys())
        if clashes:
            log.warning(
                "failure enricher %s: its labels are dropped, because labels %s exist already",
                name,
                sorted(clashes),
            )
            continue
        labels.update(answer)
    return labels


def load_enrichers(names: Sequence[str], timeout: timedelta) -> Enrichers:
    """Load the named enrichers, and log the names of those that cannot be loaded."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    plugins: dict[str, FailureEnricher] = {}
    for name in names:
        if name == BUILT_IN:
            continue
        if name not in found:
            log.warning("no failure enricher %r is installed (entry points: %s)", name, GROUP)
            continue
        try:
            plugins[name] = found[name].load()()
        # Border to foreign code: a plug-in that cannot be loaded costs only its labels.
        except Exception as error:
            log.warning("failure enricher %s cannot be loaded: %r", name, error)
    return Enrichers(causes=BUILT_IN in names, plugins=plugins, timeout=timeout)


async def _ask(name: str, plugin: FailureEnricher, record: FailureRecord) -> Mapping[str, str]:
    return await _in_a_thread(lambda: _allowed_labels(name, plugin, record), name)


def _allowed_labels(name: str, plugin: FailureEnricher, record: FailureRecord) -> Mapping[str, str]:
    try:
        answer = dict(plugin.labels(record))
        return {key: text for key, text in answer.items() if _is_allowed(name, plugin, key, text)}
    # Border to foreign code: the failure of the job is handled whatever a plug-in raises.
    except Exception as error:
        log.warning("failure enricher %s failed: %r", name, error)
        return {}


def _is_allowed(name: str, plugin: FailureEnricher, key: str, value: object) -> bool:
    allowed = key in plugin.keys and isinstance(value, str)
    if not allowed:
        log.warning("failure enricher %s: label %s is not declared, or is no text", name, key)
    return allowed


async def _in_a_thread(work: Callable[[], Mapping[str, str]], name: str) -> Mapping[str, str]:
    """Run in a daemon thread, so that a hanging plug-in blocks no pool and no process exit."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Mapping[str, str]] = loop.create_future()

    def give(labels: Mapping[str, str]) -> None:
        if not answer.done():
            answer.set_result(labels)

    def run() -> None:
        labels = work()
        with contextlib.suppress(RuntimeError):  # The loop has closed.
            loop.call_soon_threadsafe(give, labels)

    threading.Thread(target=run, name=f"failure enricher {name}", daemon=True).start()
    return await answer

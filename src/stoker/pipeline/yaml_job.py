"""Jobs in YAML: each key stands for a keyword of Pipeline.

The file is read into calls of a Pipeline, so that both forms mean the same and are checked by the
same code. This module adds lines to the faults, and reports all faults together.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import fields

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault
from stoker.core.formats import known_format
from stoker.core.graph import RestartPolicy
from stoker.pipeline.demands import RESOURCES, demands_of
from stoker.pipeline.drafts import JobDraft, UserFunction
from stoker.pipeline.pipeline import Pipeline
from stoker.pipeline.yaml_nodes import Entry, YamlReader

LoadFunction = Callable[[str], UserFunction]
"""Loads a function by a name such as `helpers.py:clean`, relative to the job's file."""

_JOB = frozenset(
    {"name", "parameters", "configuration", "restart", "artifacts"}
    | {"sources", "transforms", "sinks"}
    | {"queue", "priority", "slots", "resources"}
)
_WHOLE_NUMBERS = frozenset(
    each.name for each in fields(RestartPolicy) if each.type in (int, int | None)
)
_ARTIFACTS = frozenset({"python_files", "wheels", "files"})
_SOURCE_FLAGS = frozenset({"streaming", "materialized"})
_SOURCE_TEXTS = frozenset({"format", "path", "schema", "table", "sql"})
_SOURCE = _SOURCE_FLAGS | _SOURCE_TEXTS | {"options", "function"}
_TRANSFORM = frozenset({"sql", "inputs", "materialized", "function"})
_SINK_TEXTS = frozenset({"format", "path", "table", "mode", "trigger"})
_SINK = _SINK_TEXTS | {"input", "partition_by", "options", "function"}


def yaml_draft(text: str, *, file: str, default_name: str, load_function: LoadFunction) -> JobDraft:
    """Raises InvalidJobGraph with every fault that the text by itself has."""
    reader = YamlReader(file)
    root = reader.root(text)
    if root is None or reader.is_null(root):
        raise InvalidJobGraph([str(Fault(file, "the file is empty", "write a job"))])
    yaml_job = _YamlJob(reader, load_function)
    pipeline = yaml_job.pipeline(reader.entries(root, "the job", _JOB), default_name)
    if reader.faults:
        raise InvalidJobGraph([str(fault) for fault in reader.faults])
    return replace(
        pipeline.draft(),
        lines=yaml_job.lines,
        parameter_declaration="declare it in the file: parameters: {{{name}: null}}",
    )


@dataclass
class _YamlJob:
    reader: YamlReader
    load_function: LoadFunction
    lines: dict[str, str] = field(default_factory=dict)
    """Where something is written, by the place that a fault of the assembled job names."""

    def pipeline(self, job: dict[str, Entry], default_name: str) -> Pipeline:
        name = self.reader.text(job["name"].value, "name") if "name" in job else None
        more: dict[str, Any] = {**self._demands(job), **self._artifacts(job)}
        pipeline = Pipeline(
            name if name is not None else default_name,
            configuration=self._filled(job, "configuration"),
            parameters=self._parameters(job),
            restart=self._restart(job),
            **more,
        )
        self.lines |= {key: self._line(entry) for key, entry in job.items()}
        for section, kind, define in (
            ("sources", "source", self._source),
            ("transforms", "transform", self._transform),
            ("sinks", "sink", self._sink),
        ):
            if section in job:
                for entry in self.reader.entries(job[section].value, section).values():
                    self.lines[f"{kind} '{entry.key}'"] = self._line(entry)
                    with self._located(entry):
                        define(pipeline, entry)
        return pipeline

    def _line(self, entry: Entry) -> str:
        return f"{self.reader.file} line {entry.line}"

    @contextmanager
    def _located(self, entry: Entry) -> Iterator[None]:
        """Collect the faults that the body raises, with the line of the entry."""
        known_faults = len(self.reader.faults)
        try:
            yield
        except InvalidJobGraph as error:
            # A mistyped key is also missing under its right name; report only the typo.
            if len(self.reader.faults) == known_faults:
                line = self._line(entry)
                self.reader.faults += [_Located(line, fault) for fault in error.facts["faults"]]

    def _source(self, pipeline: Pipeline, entry: Entry) -> None:
        what = f"source '{entry.key}'"
        found = self._vertex_entries(entry, what, _SOURCE)
        flags = self._flags(found, _SOURCE_FLAGS)
        reading = self._format_arguments(found, _SOURCE_TEXTS)
        if "function" in found:
            self._refuse_others(found, reading, what)
            pipeline.source(name=entry.key, **flags)(self._function(found["function"]))
        else:
            pipeline.source(entry.key, **{**flags, **reading})

    def _transform(self, pipeline: Pipeline, entry: Entry) -> None:
        what = f"transform '{entry.key}'"
        found = self._vertex_entries(entry, what, _TRANSFORM)
        flags = self._flags(found, frozenset({"materialized"}))
        computing: dict[str, Any] = self._some_texts(found, frozenset({"sql"}))
        if "inputs" in found:
            computing["inputs"] = self.reader.texts(found["inputs"].value, "inputs")
        if "function" in found:
            self._refuse_others(found, computing, what)
            pipeline.transform(name=entry.key, **flags)(self._function(found["function"]))
        else:
            pipeline.transform(entry.key, **{**flags, **computing})

    def _sink(self, pipeline: Pipeline, entry: Entry) -> None:
        what = f"sink '{entry.key}'"
        found = self._vertex_entries(entry, what, _SINK)
        if "input" not in found:
            self.reader.fault(
                self._line(entry), f"{what} has no input", "write 'input: name of a vertex'"
            )
            return
        source = self.reader.text(found["input"].value, "input") or ""
        when = self._some_texts(found, frozenset({"mode", "trigger"}))
        writing = self._format_arguments(found, _SINK_TEXTS - {"mode", "trigger"})
        if "partition_by" in found:
            writing["partition_by"] = self.reader.texts(found["partition_by"].value, "partition_by")
        if "function" in found:
            self._refuse_others(found, writing, what)
            decorate = pipeline.sink(source, name=entry.key, **when)
            decorate(self._function(found["function"]))
        else:
            # Without any keyword for writing, the call would be taken for a decorator.
            pipeline.sink(source, name=entry.key, **{"options": {}, **when, **writing})

    def _vertex_entries(self, entry: Entry, what: str, known: frozenset[str]) -> dict[str, Entry]:
        elsewhere: dict[str, str] = {}
        if "options" in known and isinstance(entry.value, yaml.MappingNode):
            elsewhere = {
                option.lower(): "write it below 'options:'" for option in _options_of(entry.value)
            }
        return self.reader.entries(entry.value, what, known, elsewhere=elsewhere)

    def _format_arguments(self, found: dict[str, Entry], texts: frozenset[str]) -> dict[str, Any]:
        arguments: dict[str, Any] = self._some_texts(found, texts)
        if "options" in found:
            arguments["options"] = self._filled(found, "options")
        return arguments

    def _some_texts(self, found: dict[str, Entry], keys: frozenset[str]) -> dict[str, Any]:
        return {
            key: self.reader.text(entry.value, key) for key, entry in found.items() if key in keys
        }

    def _flags(self, found: dict[str, Entry], keys: frozenset[str]) -> dict[str, Any]:
        return {
            key: self.reader.flag(entry.value, key) for key, entry in found.items() if key in keys
        }

    def _function(self, entry: Entry) -> UserFunction:
        return self.load_function(self.reader.text(entry.value, "function") or "")

    def _refuse_others(self, found: dict[str, Entry], others: dict[str, Any], what: str) -> None:
        if others:
            self.reader.fault(
                self._line(found["function"]),
                f"{what} has a function and {', '.join(others)}",
                "keep one way of saying what it does",
            )

    def _parameters(self, job: dict[str, Entry]) -> dict[str, str | None]:
        if "parameters" not in job:
            return {}
        entries = self.reader.entries(job["parameters"].value, "parameters")
        self.lines |= {f"parameter '{name}'": self._line(e) for name, e in entries.items()}
        return {name: self.reader.text(e.value, f"'{name}'") for name, e in entries.items()}

    def _filled(self, found: dict[str, Entry], key: str) -> dict[str, str]:
        """A mapping of texts, where a key without a value is a fault."""
        if key not in found:
            return {}
        filled: dict[str, str] = {}
        for name, entry in self.reader.entries(found[key].value, key).items():
            if self.reader.is_null(entry.value):
                self.reader.fault(
                    self.reader.place(entry.value),
                    f"'{name}' in {key} has no value",
                    "write one, or '' for an empty text",
                )
            else:
                filled[name] = self.reader.text(entry.value, f"'{name}'") or ""
        return filled

    def _restart(self, job: dict[str, Entry]) -> dict[str, Any] | None:
        if "restart" not in job or self.reader.is_null(job["restart"].value):
            return None
        known = frozenset(RestartPolicy.__struct_fields__)
        policy: dict[str, Any] = {}
        for key, entry in self.reader.entries(job["restart"].value, "restart", known).items():
            if key == "strategy":
                policy[key] = self.reader.text(entry.value, key) or ""
            elif key in _WHOLE_NUMBERS:
                policy[key] = self.reader.whole_number(entry.value, key)
            else:
                policy[key] = self.reader.number(entry.value, key)
        return policy

    def _demands(self, job: dict[str, Entry]) -> dict[str, Any]:
        demands: dict[str, Any] = {}
        if "queue" in job:
            demands["queue"] = self.reader.text(job["queue"].value, "queue")
        for key in ("priority", "slots"):
            if key in job:
                demands[key] = self.reader.whole_number(job[key].value, key)
        if "resources" in job:
            known = frozenset(RESOURCES)
            found = self.reader.entries(job["resources"].value, "resources", known)
            resources: dict[str, Any] = {}
            for key, entry in found.items():
                read = self.reader.number if key == "cores" else self.reader.text
                with self._located(entry):
                    value = read(entry.value, key)
                    demands_of(resources={key: value})
                    resources[key] = value
            demands["resources"] = resources
        return demands

    def _artifacts(self, job: dict[str, Entry]) -> dict[str, list[Path]]:
        if "artifacts" not in job:
            return {}
        found = self.reader.entries(job["artifacts"].value, "artifacts", _ARTIFACTS)
        return {
            key: [Path(path) for path in self.reader.texts(entry.value, key)]
            for key, entry in found.items()
        }


@dataclass(frozen=True)
class _Located(Fault):
    """A fault of the Pipeline, with its line in the YAML file as the place."""

    def __init__(self, place: str, fault: str) -> None:
        super().__init__(place, fault, "")

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def _options_of(node: yaml.MappingNode) -> frozenset[str]:
    """Options of the format that the mapping names, for reading and writing."""
    for key, value in node.value:
        if key.value == "format" and isinstance(value, yaml.ScalarNode):
            known = known_format(value.value)
            if known is not None:
                return (known.read or frozenset()) | (known.write or frozenset())
    return frozenset()

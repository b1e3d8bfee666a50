"""User functions as bytes, and the Python and library versions that those bytes depend on.

A task executor is expected to have the libraries of the client, but not the user's own files. Code
from the user's files is therefore pickled by value and travels with the job. Installed code is
pickled by reference, and the job's environment records its version, so that the process of a task
notices when it has another one.
"""

import importlib.metadata
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pyspark.cloudpickle
from packaging.utils import canonicalize_name

from stoker.core.faults import Fault
from stoker.core.graph import Environment, PythonFunction
from stoker.pipeline.drafts import UserFunction
from stoker.pipeline.local_modules import imported_packages, local_modules, root_of

cloudpickle: Any = pyspark.cloudpickle
"""The copy that PySpark ships, with which the task executor unpickles. It has no type hints."""

_REGISTRY_LOCK = threading.RLock()
"""Reentrant, because an object that is being pickled may build a pipeline itself."""
_NOT_A_LIBRARY = frozenset({"stoker", "__future__"})


class FunctionPickler:
    """Pickles the user's own code by value and installed code by reference."""

    def __init__(self) -> None:
        self._own_modules: dict[str, ModuleType] = {}

    def pickle(
        self,
        function: UserFunction,
        parameters: tuple[str, ...],
        *,
        place: str,
        bound: Mapping[str, Any] | None = None,
    ) -> PythonFunction | Fault:
        """`bound` are arguments that travel with the function, because its caller passes none."""
        name = getattr(function, "__name__", type(function).__name__)
        own = _own_modules(function)
        self._own_modules.update({module.__name__: module for module in own})
        with _by_value(own):
            try:
                payload = cloudpickle.dumps(partial(function, **bound) if bound else function)
            except Exception as error:  # the user's objects decide what is raised here
                return _fault(function, name, error, place)
        return PythonFunction(name=name, payload=payload, parameters=parameters)

    def environment(self, *, wheel_distributions: Set[str]) -> Environment:
        """The versions in use here, except those of distributions that travel as wheels."""
        wanted = {"pyspark"}
        for module in self._own_modules.values():
            wanted |= imported_packages(module)
        wanted -= {name.split(".")[0] for name in self._own_modules}
        wanted -= _NOT_A_LIBRARY | sys.stdlib_module_names
        return Environment(
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            libraries={
                name: version
                for name, version in _versions(wanted).items()
                if canonicalize_name(name) not in wheel_distributions
            },
        )


def _own_modules(function: UserFunction) -> list[ModuleType]:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    root = None if module is None else root_of(module)
    if module is None or root is None:
        return []
    return [module, *(found for found in local_modules(root) if found is not module)]


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    """Let cloudpickle pickle these modules by value.

    Its registry belongs to the whole process. Without the lock, a thread that is done would
    unregister modules while another thread still pickles them. They would then travel by reference,
    to a machine where they are not installed.
    """
    with _REGISTRY_LOCK:
        known = cloudpickle.list_registry_pickle_by_value()
        # A module may be loaded under two names: multiprocessing does so with the main module.
        added = {
            m.__name__: m for m in modules if m.__name__ in sys.modules and m.__name__ not in known
        }
        for module in added.values():
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added.values():
                cloudpickle.unregister_pickle_by_value(module)


def _versions(packages: set[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    unresolved: set[str] = set()
    for package in packages:
        try:
            versions[package] = _version(package)
        except importlib.metadata.PackageNotFoundError:
            unresolved.add(package)
    if unresolved:
        distributions = _distributions_in(tuple(_places()))
        for package in unresolved:
            for distribution in distributions.get(package, ()):
                versions[distribution] = _version(distribution)
    return dict(sorted(versions.items()))


def _places() -> Iterator[tuple[str, int]]:
    """Directories to search for distributions, with times that change with an installation."""
    for place in sys.path:
        with suppress(OSError):
            yield place, os.stat(place or ".").st_mtime_ns


@lru_cache(maxsize=1)
def _distributions_in(_places: tuple[tuple[str, int], ...]) -> Mapping[str, list[str]]:
    """Distributions by package. Cached: reading them all takes longer than a small job."""
    return importlib.metadata.packages_distributions()


def _version(distribution: str) -> str:
    place = str(importlib.metadata.distribution(distribution).locate_file(""))
    return _version_at(distribution, place, os.stat(place).st_mtime_ns)


@lru_cache(maxsize=256)
def _version_at(distribution: str, _place: str, _changed: int) -> str:
    """Cached until something is installed there: reading it takes longer than pickling."""
    return importlib.metadata.version(distribution)


def _fault(function: UserFunction, name: str, error: Exception, place: str) -> Fault:
    blamed = _culprit(function)
    if blamed is None:
        return Fault(
            place,
            f"function '{name}' cannot be serialized: {type(error).__name__}: {error}",
            "let it use only plain values, and open everything else inside the function",
        )
    route, culprit = blamed
    kind = f"{type(culprit).__module__}.{type(culprit).__qualname__}"
    return Fault(
        place,
        f"function '{name}' cannot be serialized: it captures '{'.'.join(route)}', "
        f"which is a {kind}",
        _remedy(culprit),
    )


def _remedy(culprit: Any) -> str:
    kind = type(culprit)
    if kind.__module__.startswith("pyspark.") and kind.__name__ in {"SparkSession", "SparkContext"}:
        return "take the session as the parameter 'spark'"
    if kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame":
        return "make it a source or transform, and take it as a parameter of that name"
    return "open it inside the function"


def _culprit(function: UserFunction) -> tuple[list[str], Any] | None:
    """The captured object that cannot be pickled, and the names that lead to it."""
    seen: set[int] = {id(function)}
    waiting: list[tuple[list[str], Any]] = [([], function)]
    while waiting:
        route, current = waiting.pop()
        for name, value in _captured(current):
            if id(value) in seen or _is_picklable(value):
                continue
            seen.add(id(value))
            if isinstance(value, FunctionType):
                waiting.append(([*route, name], value))
            else:
                return [*route, name], value
    return None


def _is_picklable(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # the user's objects decide what is raised here, too
        return False
    return True


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(function, FunctionType):
        owner = getattr(function, "__self__", None)
        if owner is not None:
            yield "self", owner
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    for name in sorted(_names_in(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for position, value in enumerate(function.__defaults__ or ()):
        yield f"default {position + 1}", value


def _names_in(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names

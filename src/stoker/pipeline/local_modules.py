"""Tells the user's own modules, whose code must travel with the job, from installed ones.

It reads their source, too: what a module imports shows which libraries the job needs.
"""

import ast
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

_PARSER_LOCK = threading.Lock()

_INSTALLED_PARTS = frozenset({"site-packages", "dist-packages"})
_SITE, _DIST = (f"{os.sep}{part}{os.sep}" for part in ("site-packages", "dist-packages"))
JOB_MODULE = "stoker_job_"
"""Begins the name under which the file of a job is loaded."""
_NEVER_LOCAL = frozenset({"stoker", "pyspark"})


def file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).absolute() if file else None


def is_installed(file: Path) -> bool:
    """True for a file of Python itself or of an installed package: a task executor has it, too."""
    return not _INSTALLED_PARTS.isdisjoint(file.parts) or _standard_library() in file.parents


@cache
def _standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def root_of(module: ModuleType) -> Path | None:
    """The directory from which the module was imported; None for an installed one."""
    file = file_of(module)
    if file is not None and module.__name__.startswith(JOB_MODULE):
        # Nobody can import the file of a job by this name, even if it lies among installed ones.
        return file.parent
    if file is None or is_installed(file) or module.__name__.split(".")[0] in _NEVER_LOCAL:
        return None
    depth = module.__name__.count(".") + (file.name == "__init__.py")
    return file.parents[depth] if depth < len(file.parents) else file.parent


def local_modules(root: Path) -> list[ModuleType]:
    """Loaded modules whose files are below the root and not installed."""
    found = []
    # Thousands of modules are loaded. Few of them lie below the root, or nearly all if the virtual
    # environment is there. Comparing strings first avoids making thousands of paths.
    below = os.path.join(root, "")
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType):
            continue
        named = getattr(module, "__file__", None)
        if not named or (named.startswith(os.sep) and not named.startswith(below)):
            continue
        if _SITE in named or _DIST in named:
            continue
        if name.split(".")[0] in _NEVER_LOCAL:
            continue
        file = Path(named).absolute()
        if root in file.parents and not is_installed(file):
            found.append(module)
    return found


def imported_packages(module: ModuleType) -> set[str]:
    """Top-level names that the module's source imports anywhere, also inside functions."""
    file = file_of(module)
    if file is None or file.suffix != ".py" or not file.is_file():
        return set()
    known = file.stat()
    return set(_imports_in(file, known.st_mtime_ns, known.st_size))


def parse_source(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """`ast.parse`, by one thread at a time.

    CPython 3.11 counts the depth of all parsers of a process together. When threads take turns
    within it, one of them fails with "AST constructor recursion depth mismatch".
    """
    with _PARSER_LOCK:
        return ast.parse(source, filename)


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Absolute names of the modules imported anywhere in the tree, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, node.lineno) for alias in aliases)
            case ast.ImportFrom(module=str(origin), level=0):
                yield origin, node.lineno
            case _:
                pass


@lru_cache(maxsize=256)
def _imports_in(file: Path, _changed: int, _size: int) -> frozenset[str]:
    """Cached until the file changes: a program that submits many jobs parses it once."""
    tree = parse_source(file.read_bytes())
    return frozenset(name.split(".")[0] for name, _ in imported_modules(tree))

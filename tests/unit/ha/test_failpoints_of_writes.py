"""Every store write has a failpoint before it; no crash sweep would test one without."""

import ast
from pathlib import Path

import stoker.events
import stoker.ha
from stoker.core.failpoints import EVENT_FAILPOINTS, FAILPOINTS

SOURCES = Path(stoker.ha.__file__).parent
MODULES = sorted(
    [
        *SOURCES.glob("stores/*.py"),
        SOURCES / "election.py",
        SOURCES / "publication.py",
        *Path(stoker.events.__path__[0]).glob("*.py"),
    ]
)

WRITES = {"commit", "commit_until_superseded", "write", "create", "delete", "delete_tree", "upload"}
OWNERS = ("storage", "leadership", "coordinator", "grant")

EXEMPT = {
    "commit_or_read_back": "the write of its callers, which have their own",
    "ShutdownStore._write": "the write of its callers, which have their own around it",
    "JobGraphStore._create": "the write of `put`, which has its own around it",
    "PublicationStore.decide": "the write of a runner, which has its own around it",
    "QueryResultStore.write_rows": "the write of a runner; its next attempt writes elsewhere",
    "QueryResultStore.record": "the write of a runner; its next attempt writes elsewhere",
    "JobGraphStore._discard": "content that no record points to; the sweep removes it too",
    "JobResultStore._discard": "content that no record points to; the sweep removes it too",
    "CancellationStore.remove": "a request for a job that is gone; removed with the job's record",
    "LeaderElection._release_key": "the session's end removes the same key",
    "LeaderPublication.withdraw": "the session's end removes the same key",
}


def _functions(tree: ast.Module) -> dict[str, ast.AsyncFunctionDef | ast.FunctionDef]:
    found = {}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef):
                found[prefix + each.name] = each
    return found


def _is_write(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="commit_or_read_back"):
            return True
        case ast.Attribute(attr=method, value=owner):
            return method in WRITES and ast.unparse(owner).endswith(OWNERS)
    return False


def _failpoint(call: ast.Call) -> str | None:
    match call:
        case ast.Call(func=ast.Name(id="failpoint"), args=[ast.Constant(value=str(name))]):
            return name
    return None


def unguarded(source: str) -> set[str]:
    """Functions in which some write has no `before` failpoint between it and the previous write."""
    bare = set()
    for name, function in _functions(ast.parse(source)).items():
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        is_guarded = False
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            if (point := _failpoint(call)) is not None:
                is_guarded = ".before" in point
            elif _is_write(call):
                if not is_guarded:
                    bare.add(name)
                is_guarded = False
    return bare


def test_every_write_of_a_store_has_a_failpoint_before_it():
    bare = {name for module in MODULES for name in unguarded(module.read_text())}
    assert bare - set(EXEMPT) == set()


def test_every_exemption_is_needed():
    bare = {name for module in MODULES for name in unguarded(module.read_text())}
    assert set(EXEMPT) - bare == set()


def test_every_listed_failpoint_exists_in_the_code():
    sources = SOURCES.parent.rglob("*.py")
    calls = [
        _failpoint(node)
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    assert (FAILPOINTS | EVENT_FAILPOINTS) - set(calls) == set()


def test_a_write_without_a_failpoint_is_found():
    source = """
class Store:
    async def good(self):
        failpoint("cancellations.before-record")
        await self._leadership.commit([])

    async def second_is_bad(self):
        failpoint("cancellations.before-record")
        await self._leadership.commit([])
        await self._storage.delete("x")
"""
    assert unguarded(source) == {"Store.second_is_bad"}

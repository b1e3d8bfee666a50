"""Memory of a task executor without its JVM, of its zygote and of a warm runner."""

from pathlib import Path

from bench.cluster import whole_cluster
from bench.measure import Verdict
from stoker.osproc.process_tree import children_of

MEGABYTE = 1024**2


def proportional_megabytes(pid: int) -> float:
    """What it would free if it ended, shared pages counted by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    return 0.0


def is_zygote(pid: int) -> bool:
    return b"stoker.engine.zygote.main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def run() -> list[Verdict]:
    with whole_cluster() as cluster:
        assert cluster.state is not None
        pid = cluster.state.task_executors[0].pid
        zygote = next(each for each in children_of(pid) if is_zygote(each))
        own = proportional_megabytes(pid)
        forked_from = proportional_megabytes(zygote)
        warm = [proportional_megabytes(each) for each in children_of(zygote)]
    print(f"task executor, its own process: {own:.0f} MB")
    print(f"zygote: {forked_from:.0f} MB")
    print(f"warm runner: {max(warm):.0f} MB (of {len(warm)})")
    return [
        Verdict("task executor with its zygote, no JVM", own + forked_from, 300, "MB"),
        Verdict("warm runner", max(warm), 100, "MB"),
    ]

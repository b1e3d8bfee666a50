"""Memory of a task executor (without its JVM), its zygote and a warm runner."""

from pathlib import Path

from bench.cluster import running_cluster
from bench.measure import Verdict
from stoker.osproc.process_tree import children_of

MEGABYTE = 1024**2


def proportional_megabytes(pid: int) -> float:
    """Proportional set size: a page that several processes share is divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    return 0.0


def is_zygote(pid: int) -> bool:
    return b"stoker.engine.zygote.main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def run() -> list[Verdict]:
    with running_cluster() as cluster:
        assert cluster.state is not None
        pid = cluster.state.task_executors[0].pid
        zygote = next(each for each in children_of(pid) if is_zygote(each))
        executor = proportional_megabytes(pid)
        zygote_size = proportional_megabytes(zygote)
        runners = [proportional_megabytes(each) for each in children_of(zygote)]
    print(f"task executor, without its child processes: {executor:.0f} MB")
    print(f"zygote: {zygote_size:.0f} MB")
    print(f"warm runner: {max(runners):.0f} MB (the largest of {len(runners)})")
    return [
        Verdict("task executor with its zygote, without JVM", executor + zygote_size, 300, "MB"),
        Verdict("warm runner", max(runners), 100, "MB"),
    ]

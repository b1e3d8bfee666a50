"""How long the command line takes to answer, against the bare interpreter."""

import os
import subprocess
import sys

from bench.cluster import cluster_without_spark
from bench.measure import Verdict, alternate

ROUNDS = 15


def run() -> list[Verdict]:
    verdicts = []
    stoker = [sys.executable, "-m", "stoker.cli.main"]
    bare = [sys.executable, "-c", "pass"]
    # As installed: with compiled modules, which this switch would do away with.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with cluster_without_spark() as masters:
        for arguments in (["--version"], ["list", "-m", masters]):
            reference, ours = alternate(
                lambda: subprocess.run(bare, check=True, env=environment),
                lambda words=arguments: subprocess.run(
                    [*stoker, *words], check=True, stdout=subprocess.DEVNULL, env=environment
                ),
                names=("bare interpreter", f"stoker {arguments[0]}"),
                rounds=ROUNDS,
            )
            print(f"{reference}\n{ours}")
            print(f"  ratio {ours.median / reference.median:.1f}")
            verdicts.append(Verdict(f"stoker {arguments[0]}", ours.median / 1000, 0.3, "s"))
    return verdicts

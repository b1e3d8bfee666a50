"""How long the command line takes to answer, against the bare interpreter and Flink's.

Flink's command line takes part where STOKER_FLINK names the folder with its jars: `flink list` asks
the same master. `flink run` cannot: what it hands in is a Java object, so it goes to a JobManager
of Flink's own, which accepts the job and runs it as little as our master does. Flink's script
starts a JVM that reads the configuration before it starts the one that asks; so does this, where
the folder `bin` beside that of the jars has what it needs.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cluster import cluster_without_spark
from bench.flink import Flink
from bench.measure import Verdict, alternate

STOKER = [sys.executable, "-m", "stoker.cli.main"]
ROUNDS = int(os.environ.get("STOKER_BENCH_ROUNDS", "15"))
FLINK = os.environ.get("STOKER_FLINK")
AIM_FASTER = 8.0
JOB = """
name: copy
sources:
  numbers: {format: json, path: /in}
sinks:
  copies: {input: numbers, format: noop, mode: overwrite}
"""


def run() -> list[Verdict]:
    verdicts = []
    bare = [sys.executable, "-c", "pass"]
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        job = Path(folder) / "job.yml"
        job.write_text(JOB)
        with cluster_without_spark() as masters:
            for arguments in (
                ["--version"],
                ["list", "-m", masters],
                ["run", "-d", "-m", masters, str(job)],
            ):
                reference, ours = alternate(
                    lambda: _quietly(bare),
                    lambda words=arguments: _quietly([*STOKER, *words]),
                    names=("bare interpreter", f"stoker {arguments[0]}"),
                    rounds=ROUNDS,
                )
                print(f"{reference}\n{ours}")
                print(f"  ratio {ours.median / reference.median:.1f}", flush=True)
                verdicts.append(Verdict(f"stoker {arguments[0]}", ours.median / 1000, 0.3, "s"))
            if FLINK is not None:
                verdicts += _against_flink(Flink(Path(FLINK), Path(folder)), masters, job)
    return verdicts


def _quietly(command: list[str], **more: str) -> None:
    # As installed: with compiled modules, which this switch would do away with; and without what
    # is set for the measurement, which is no option of Stoker's.
    environment = {
        key: value
        for key, value in os.environ.items()
        if key != "PYTHONDONTWRITEBYTECODE" and not key.startswith("STOKER_")
    }
    subprocess.run(
        command,
        check=True,
        env=environment | more,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _against_flink(flink: Flink, masters: str, job: Path) -> list[Verdict]:
    (flink.folder / "config.yaml").write_text("")
    asked = flink.script("list", "-m", masters.removeprefix("http://"))
    if len(asked) == 1:
        print("without the JVM that reads Flink's configuration: bin/bash-java-utils.jar is absent")
    verdicts = [_compared("list", flink, asked, ["list", "-m", masters])]
    program = flink.program()
    if program is None:
        print("flink run is left out: there is no javac to make a job for it")
        return verdicts
    with flink.job_manager() as theirs:
        handed_in = flink.script("run", "-d", "-m", theirs, str(program))
        ours = ["run", "-d", "-m", masters, str(job)]
        return [*verdicts, _compared("run -d", flink, handed_in, ours)]


def _compared(name: str, flink: Flink, script: list[list[str]], ours: list[str]) -> Verdict:
    def by_flink() -> None:
        for command in script:
            _quietly(command, FLINK_CONF_DIR=str(flink.folder))

    theirs, here = alternate(
        by_flink,
        lambda: _quietly([*STOKER, *ours]),
        names=(f"flink {name}", f"stoker {name}"),
        rounds=max(1, ROUNDS // 3),
        warm_up=1,
    )
    print(f"{theirs}\n{here}", flush=True)
    return Verdict(
        f"stoker {name}, times faster than flink {name}",
        theirs.median / here.median,
        AIM_FASTER,
        "",
        at_least=True,
    )

"""Response times of the command line, against a bare interpreter and Flink's command line.

Flink's command line is measured when FLINK_JARS names the folder with Flink's jars. `flink list`
sends its request to the same master. `flink run` cannot, because it submits a serialized Java
object; it submits to a real JobManager of Flink, which has no task managers, as our master has no
task executors. Flink's script starts a JVM that reads the configuration before the JVM that sends
the request. The benchmark starts both when the `bin` folder next to the jars has the jar for it.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.cluster import running_cluster
from bench.flink import Flink
from bench.measure import Verdict, alternate, environment_of_commands, rounds

STOKER = [sys.executable, "-m", "stoker.cli.main"]
ROUNDS = rounds(15)
FLINK = os.environ.get("FLINK_JARS")
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
        with running_cluster(task_executors=0) as cluster:
            masters = cluster.urls
            for arguments in (
                ["--version"],
                ["list", "-m", masters],
                ["run", "-d", "-m", masters, str(job)],
            ):
                reference, ours = alternate(
                    partial(_run_silently, bare),
                    partial(_run_silently, [*STOKER, *arguments]),
                    names=("bare interpreter", f"stoker {arguments[0]}"),
                    rounds=ROUNDS,
                )
                print(f"{reference}\n{ours}")
                print(f"  ratio {ours.median / reference.median:.1f}", flush=True)
                verdicts.append(Verdict(f"stoker {arguments[0]}", ours.median / 1000, 0.3, "s"))
            if FLINK is not None:
                verdicts += _against_flink(Flink(Path(FLINK), Path(folder)), masters, job)
    return verdicts


def _run_silently(command: list[str], **variables: str) -> None:
    subprocess.run(
        command,
        check=True,
        env=environment_of_commands() | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _against_flink(flink: Flink, masters: str, job: Path) -> list[Verdict]:
    (flink.folder / "config.yaml").write_text("")
    flink_list = flink.script("list", "-m", masters.removeprefix("http://"))
    if len(flink_list) == 1:
        print(
            "without the JVM that reads Flink's configuration: bin/bash-java-utils.jar is missing"
        )
    verdicts = [_compare("list", flink, flink_list, ["list", "-m", masters])]
    program = flink.program()
    if program is None:
        print("flink run is skipped: there is no javac to compile its job")
        return verdicts
    with flink.job_manager() as address:
        flink_run = flink.script("run", "-d", "-m", address, str(program))
        ours = ["run", "-d", "-m", masters, str(job)]
        return [*verdicts, _compare("run -d", flink, flink_run, ours)]


def _compare(name: str, flink: Flink, script: list[list[str]], ours: list[str]) -> Verdict:
    def run_flink() -> None:
        for command in script:
            _run_silently(command, FLINK_CONF_DIR=str(flink.folder))

    reference, stoker = alternate(
        run_flink,
        lambda: _run_silently([*STOKER, *ours]),
        names=(f"flink {name}", f"stoker {name}"),
        rounds=max(1, ROUNDS // 3),
        warm_up=1,
    )
    print(f"{reference}\n{stoker}", flush=True)
    return Verdict(
        f"stoker {name}, times faster than flink {name}",
        reference.median / stoker.median,
        AIM_FASTER,
        "",
        at_least=True,
    )

"""How long the command line takes to answer, against the bare interpreter and Flink's.

Flink's command line takes part where STOKER_FLINK names the folder with its jars: `flink list` asks
the same master. `flink run` cannot: what it hands in is a Java object. Flink's script starts a JVM
that reads the configuration before it starts the one that asks; so does this, where the folder
`bin` beside that of the jars has what it needs.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cluster import cluster_without_spark
from bench.measure import Sample, Verdict, alternate, milliseconds

ROUNDS = int(os.environ.get("STOKER_BENCH_ROUNDS", "15"))
FLINK = os.environ.get("STOKER_FLINK")
FLINK_MAIN = "org.apache.flink.client.cli.CliFrontend"
FLINK_CONFIGURATION = "org.apache.flink.runtime.util.bash.BashJavaUtils"
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
    stoker = [sys.executable, "-m", "stoker.cli.main"]
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
                    lambda words=arguments: _quietly([*stoker, *words]),
                    names=("bare interpreter", f"stoker {arguments[0]}"),
                    rounds=ROUNDS,
                )
                print(f"{reference}\n{ours}")
                print(f"  ratio {ours.median / reference.median:.1f}", flush=True)
                verdicts.append(Verdict(f"stoker {arguments[0]}", ours.median / 1000, 0.3, "s"))
            if FLINK is not None:
                verdicts.append(_against_flink(FLINK, folder, masters, stoker))
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


def _against_flink(lib: str, folder: str, masters: str, stoker: list[str]) -> Verdict:
    (Path(folder) / "config.yaml").write_text("")
    flink = ["java", "-cp", f"{lib}/*", FLINK_MAIN, "list", "-m", masters.removeprefix("http://")]
    script = [*_reading_of_configuration(Path(lib), folder), flink]

    def list_by_flink() -> None:
        for command in script:
            _quietly(command, FLINK_CONF_DIR=folder)

    pairs = [
        (
            milliseconds(list_by_flink),
            milliseconds(lambda: _quietly([*stoker, "list", "-m", masters])),
        )
        for _ in range(max(1, ROUNDS // 3))
    ]
    theirs = Sample("flink list", tuple(pair[0] for pair in pairs))
    ours = Sample("stoker list", tuple(pair[1] for pair in pairs))
    print(f"{theirs}\n{ours}", flush=True)
    ratio = theirs.median / ours.median
    return Verdict(
        "stoker list, times faster than flink list", ratio, AIM_FASTER, "", at_least=True
    )


def _reading_of_configuration(lib: Path, folder: str) -> list[list[str]]:
    utilities = lib.parent / "bin" / "bash-java-utils.jar"
    if not utilities.exists():
        print("without the JVM that reads Flink's configuration: bin/bash-java-utils.jar is absent")
        return []
    (flink,) = lib.glob("flink-dist*.jar")
    read = ["UPDATE_AND_GET_FLINK_CONFIGURATION", "--configDir", folder, "-flatten"]
    return [["java", "-cp", f"{flink}:{utilities}", FLINK_CONFIGURATION, *read]]

"""A Spark cluster of its own: a master and workers from the installed PySpark, on loopback."""

import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from builders import eventually
from stoker.engine.java import bundled_java_home, find_java
from stoker.engine.server_config import spark_home
from stoker.osproc.parent_death import die_with_parent_command

_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_PATIENCE_SECONDS = 120


@asynccontextmanager
async def spark_cluster(folder: Path, *, workers: int) -> AsyncIterator[str]:
    """Run the cluster; yields the URL of its master."""
    java = await find_java(os.environ, folder / "java", bundled_home=bundled_java_home())
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    async with AsyncExitStack() as stack:
        log = folder / "master.log"
        master_class = "org.apache.spark.deploy.master.Master"
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _start(stack, environment, log, master_class, *options)
        url = (await _wait_for_line(log, _STARTED)).group(1)
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        for each in logs:
            worker_class = "org.apache.spark.deploy.worker.Worker"
            share = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m"]
            _start(stack, environment, each, worker_class, *share, url)
        for each in logs:
            await _wait_for_line(each, re.compile(_REGISTERED))
        yield url


def _start(stack: AsyncExitStack, environment: dict[str, str], log: Path, *command: str) -> None:
    with log.open("wb") as output:
        process = subprocess.Popen(
            die_with_parent_command(str(spark_home() / "bin" / "spark-class"), *command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _wait_for_line(log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    def find() -> re.Match[str] | None:
        return pattern.search(log.read_text())

    what = f"{log.name} contains {pattern.pattern!r}"
    await eventually(lambda: find() is not None, what, _PATIENCE_SECONDS)
    found = find()
    assert found is not None
    return found

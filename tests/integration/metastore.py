"""A real Hive metastore for the duration of a test: the service whose classes Spark ships.

It keeps its records in a Derby database, which one process alone can open: this service, which all
Sparks ask.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.engine.java import bundled_java_home
from stoker.engine.server_config import spark_home

_START_SECONDS = 120.0
_POLL_SECONDS = 0.2


@contextmanager
def metastore(folder: Path, warehouse: Path) -> Iterator[str]:
    """Run the service with its files in `folder`; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "metastore.log"
    with log.open("ab") as output:
        service = subprocess.Popen(
            _command(folder, warehouse, port), cwd=folder, stdout=output, stderr=output
        )
    try:
        _wait_until_it_answers(service, port, log)
        yield f"thrift://127.0.0.1:{port}"
    finally:
        service.kill()
        service.wait()


def _command(folder: Path, warehouse: Path, port: int) -> list[str]:
    home = bundled_java_home()
    java = str(home / "bin" / "java") if home is not None else "java"
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse.as_uri(),
        # Its asynchronous log needs a library that Spark does not ship.
        "hive.async.log.enabled": "false",
    }
    return [
        java,
        "-Xmx256m",
        f"-Dderby.system.home={folder}",
        "-cp",
        os.path.join(spark_home(), "jars", "*"),
        "org.apache.hadoop.hive.metastore.HiveMetaStore",
        "-p",
        str(port),
        *(word for key, value in settings.items() for word in ("--hiveconf", f"{key}={value}")),
    ]


def _wait_until_it_answers(service: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and service.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(_POLL_SECONDS)
        else:
            return
    raise AssertionError(f"the metastore did not start:\n{log.read_text()[-5000:]}")

"""Reads ZooKeeper's transaction log: which session made which changes, and in which order."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient

from stoker.engine.server_config import spark_home
from stoker.ha.zookeeper.location import read_location

_TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
_JARS = ("zookeeper-", "slf4j-api-", "log4j-", "metrics-core-", "snappy-java-", "commons-cli-")
_LINE = re.compile(r"session 0x([0-9a-f]+) cxid \S+ zxid 0x([0-9a-f]+) (\S+)(.*)")
_NO_CHANGES = ("createSession", "closeSession", "error")


@dataclass(frozen=True)
class Leader:
    session: int
    raised_at: int
    """Number of the transaction in which the leader raised the epoch."""


class ZooKeeperLog:
    def __init__(self, directory: Path, url: str, java: str) -> None:
        self._directory = directory
        self._location = read_location(url)
        self._java = java

    def leader(self) -> Leader:
        client = KazooClient(",".join(self._location.hosts))
        client.start(timeout=30)
        try:
            client.sync(self._location.root)
            _, election = client.get(f"{self._location.root}/election")
            _, epoch = client.get(f"{self._location.root}/epoch")
        finally:
            client.stop()
            client.close()
        return Leader(session=election.ephemeralOwner, raised_at=epoch.mzxid)

    def writes_of(self, session: int, *, after: int) -> list[str]:
        """Changes by this session after the transaction with that number."""
        return sorted(
            {
                f"0x{number:x} {kind}{rest}"
                for found, number, kind, rest in self._transactions()
                if (found, number > after) == (session, True)
                and kind not in _NO_CHANGES
                and not (kind == "multi" and rest.startswith(" error"))
            }
        )

    def sessions(self) -> set[int]:
        return {session for session, *_ in self._transactions()}

    def _transactions(self) -> list[tuple[int, int, str, str]]:
        files = sorted(self._directory.glob("zookeeper-*/data/version-2/log.*"))
        lines = [line for file in files for line in self._read(file).splitlines()]
        matches = [match for line in lines if (match := _LINE.search(line))]
        return [(int(m[1], 16), int(m[2], 16), m[3], m[4]) for m in matches]

    def _read(self, file: Path) -> str:
        jars = (spark_home() / "jars").glob("*.jar")
        classpath = ":".join(str(jar) for jar in jars if jar.name.startswith(_JARS))
        # The tool fails at an incomplete last record, but prints all transactions before it.
        done = subprocess.run(
            [self._java, "-Xmx64m", "-cp", classpath, _TOOL, "-d", str(file)],
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.stdout.decode(errors="replace")

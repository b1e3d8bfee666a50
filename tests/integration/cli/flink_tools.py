"""Flink's own command line and dashboard, from the jars of its distribution."""

import os
import subprocess
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MAIN = "org.apache.flink.client.cli.CliFrontend"
OPENED_PACKAGES = ("java.lang", "java.util", "java.io", "java.net")
"""Java packages that bin/flink opens for reflection."""


@dataclass(frozen=True)
class FlinkCommand:
    """The `flink` command, started with the same options as by bin/flink."""

    lib: Path
    folder: Path
    master: str
    """host:port"""

    def __call__(
        self, command: str, *arguments: str, expect: int = 0
    ) -> subprocess.CompletedProcess[str]:
        configuration = self.folder / "conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "config.yaml").write_text("rest.retry.max-attempts: 2\n")
        done = subprocess.run(
            [
                "java",
                *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED_PACKAGES),
                *("-cp", f"{self.lib}/*", MAIN),
                *(command, "-m", self.master, *arguments),
            ],
            env={**os.environ, "FLINK_CONF_DIR": str(configuration)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done


@contextmanager
def dashboard(lib: Path, folder: Path, url: str) -> Iterator[str]:
    """Serve the dashboard's files on their own port; forward other requests to the master."""
    (jar,) = lib.glob("flink-dist-*.jar")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder, [each for each in archive.namelist() if each.startswith("web/")])
    root = folder / "web"

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(root))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            """Write no access log."""

        def _forward(self) -> None:
            path = self.path.partition("?")[0].lstrip("/")
            if self.command == "GET" and (not path or (root / path).is_file()):
                super().do_GET()
                return
            length = int(self.headers.get("content-length") or 0)
            kept = ("content-type", "accept", "sec-fetch-site")
            forwarded = urllib.request.Request(
                url + self.path,
                data=self.rfile.read(length) if length else None,
                method=self.command,
                headers={key: self.headers[key] for key in kept if key in self.headers},
            )
            try:
                answer = urllib.request.urlopen(forwarded, timeout=60)
            except urllib.error.HTTPError as refused:
                answer = refused
            with answer:
                body = answer.read()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", ""))
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _forward

    class Front(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore errors: a browser that leaves a page closes its connections."""

    with Front(("127.0.0.1", 0), Files) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()

"""Attacks on a cluster with tokens: requests that no client sends, and jobs that mean harm.

All of it goes to loopback, is bounded in number and time, and follows from a seed.
"""

import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent, indent

SECONDS = 5.0
"""How long one attack lasts at the most."""
PATHS = ("/jobs/overview", "/config", "/jobs", "/cluster", "/jars/upload", "/jobmanager/logs")
METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "TRACE", "BREW")
Attack = Callable[[random.Random, int], bytes]
"""Attacks the port; returns the beginning of the answer."""


def _exchange(port: int, *pieces: bytes) -> bytes:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        connection.settimeout(SECONDS)
        for piece in pieces:
            connection.sendall(piece)
        return connection.recv(65536)
    return b""


def other_spelling(random_: random.Random, port: int) -> bytes:
    """A path that another part of the server may read differently, without a token."""
    path = random_.choice(PATHS)
    for _ in range(random_.randint(1, 3)):
        path = random_.choice(
            (
                lambda p: p + "/",
                lambda p: p.replace("/", "//"),
                lambda p: "/v1" + p,
                lambda p: "/." + p,
                lambda p: p.replace("j", "%6a"),
                lambda p: p.upper(),
                lambda p: p + "?x=%00",
                lambda p: "/x/.." + p,
            )
        )(path)
    method = random_.choice(METHODS)
    return _exchange(port, f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


def noise(random_: random.Random, port: int) -> bytes:
    return _exchange(port, random_.randbytes(random_.randint(1, 5000)), b"\r\n\r\n")


def endless_head(random_: random.Random, port: int) -> bytes:
    line = b"X-%d: " % random_.randrange(100) + b"a" * 8000 + b"\r\n"
    return _exchange(port, b"GET /config HTTP/1.1\r\nHost: x\r\n", *[line] * 100)


def endless_path(random_: random.Random, port: int) -> bytes:
    return _exchange(
        port, b"GET /" + b"a" * random_.randint(70_000, 400_000) + b" HTTP/1.1\r\n\r\n"
    )


def huge_body(random_: random.Random, port: int) -> bytes:
    length = random_.choice((-1, 2**31, 2**63, 10**30))
    head = f"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
    return _exchange(port, head.encode(), b"{}")


def broken_chunks(random_: random.Random, port: int) -> bytes:
    head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    return _exchange(port, head, random_.choice((b"-1\r\n", b"zz\r\n", b"ffffffffffffffff\r\nx")))


def two_lengths(_random: random.Random, port: int) -> bytes:
    """What a proxy and a server may read as different requests."""
    head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
    smuggled = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nDELETE /cluster HTTP/1.1\r\n\r\n"
    return _exchange(port, head, smuggled)


def wrong_token(random_: random.Random, port: int) -> bytes:
    token = random_.choice((b"", b"stk_", b"\xff\xfe", b"a" * 5000, b"stk_0000_" + b"0" * 64))
    head = b"GET /jobs/overview HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
    return _exchange(port, head + token + b"\r\n\r\n")


def silence(random_: random.Random, port: int) -> bytes:
    """Connections that say nothing, or stop in the middle."""
    held = []
    with suppress(OSError):
        for _ in range(random_.randint(5, 30)):
            connection = socket.create_connection(("127.0.0.1", port), SECONDS)
            held.append(connection)
            connection.sendall(random_.choice((b"", b"GET", b"GET / HTTP/1.1\r\nHo")))
    for connection in held:
        connection.close()
    return b""


ATTACKS: tuple[Attack, ...] = (
    other_spelling,
    noise,
    endless_head,
    endless_path,
    huge_body,
    broken_chunks,
    two_lengths,
    wrong_token,
    silence,
)


def attack_at_random(seed: int, port: int, times: int) -> list[tuple[str, bytes]]:
    """What each attack got as its answer."""
    random_ = random.Random(seed)
    answers = []
    for _ in range(times):
        attack = random_.choice(ATTACKS)
        answers.append((attack.__name__, attack(random_, port)))
    return answers


# The working directory of a job is its caller's: these jobs touch only the one of their attempt.
HOSTILE_JOBS = {
    "fills-its-directory": """
        import os
        with open(os.path.join(os.environ["TMPDIR"], "filler"), "wb") as file:
            for _ in range(200):
                file.write(bytes(1024 * 1024))
        return spark.range(1)
    """,
    "forks-daemons": """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
        return spark.range(1)
    """,
    "replaces-its-logs": """
        import os
        attempt = os.path.dirname(os.environ["TMPDIR"])
        for name, target in (("stdout.log", None), ("stderr.log", "/dev/zero")):
            path = os.path.join(attempt, name)
            os.remove(path)
            os.mkfifo(path) if target is None else os.symlink(target, path)
        return spark.range(1)
    """,
    "forges-messages": """
        import os, random, socket, time
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    end = socket.socket(fileno=os.dup(int(name)))
                    if end.family == socket.AF_UNIX:
                        end.sendall(random.randbytes(5000))
            except OSError:
                pass
        time.sleep(600)
    """,
    "closes-descriptors": """
        import os, time
        os.closerange(0, 1000)
        time.sleep(600)
    """,
    "stops-its-threads": """
        import os, signal
        os.kill(os.getpid(), signal.SIGSTOP)
    """,
    "signals-its-parent": """
        import os, signal
        os.kill(os.getppid(), signal.SIGTERM)
        return spark.range(1)
    """,
    "removes-its-directory": """
        import os, shutil
        shutil.rmtree(os.path.dirname(os.environ["TMPDIR"]), ignore_errors=True)
        return spark.range(1)
    """,
    "prints-escapes": """
        print("\\033]0;title\\007" * 1000, "\\x00" * 1000)
        raise ValueError("\\033[2J" + "x" * 100000)
    """,
}


def write_hostile_job(directory: Path, name: str) -> Path:
    body = indent(dedent(HOSTILE_JOBS[name]).strip(), "    ")
    path = directory / f"{name}.py"
    path.write_text(
        f"from stoker import Pipeline\n\njob = Pipeline({name!r})\n\n\n"
        f"@job.source\ndef rows(spark):\n{body}\n\n\n"
        'job.sink("rows", name="out", format="noop", mode="overwrite")\n'
    )
    return path

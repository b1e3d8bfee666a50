"""`python stranger.py`: what another user of the machine can do to a cluster.

Reads a JSON object from its standard input, becomes the user `uid`, tries every path and port that
the object names, and prints what it has achieved. It is told where everything is: a stranger would
find the ports in /proc/net/tcp.
"""

import contextlib
import http.client
import json
import os
import socket
import struct
import sys
from typing import Any

import grpc

SECONDS = 5.0
PAGES = (
    "/",
    "/overview",
    "/jobs/overview",
    "/config",
    "/taskmanagers",
    "/jobmanager/config",
    "/api/v1/applications",
    "/environment/",
    "/executors/threadDump/?executorId=driver",
)
METHODS = (
    "/stoker.Rpc/Converse",
    "/stoker.Rpc/Call",
    "/stoker.Rpc/Hold",
    "/spark.connect.SparkConnectService/Config",
    "/spark.connect.SparkConnectService/AnalyzePlan",
    "/spark.connect.SparkConnectService/ExecutePlan",
    "/spark.connect.SparkConnectService/AddArtifacts",
)
UNUSED_PORT = 1
RPC_REQUEST, RPC_RESPONSE, RPC_FAILURE = 3, 4, 5
"""Message types of Spark's own protocol between drivers and executors."""


def become(uid: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    # Whatever this process could see as its former user, it sees no more.
    os.chdir("/")


def try_path(path: str) -> list[str]:
    """What can be done with a file or directory."""
    done = []
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        done.append("read")
    with contextlib.suppress(OSError):
        if os.path.isdir(path):
            os.mkdir(f"{path}/stranger")
            os.rmdir(f"{path}/stranger")
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        done.append("write")
    return done


def ask_pages(port: int) -> dict[str, Any]:
    """The status of each page, and of a submission."""
    answers: dict[str, Any] = {}
    for method, page in [
        *(("GET", page) for page in PAGES),
        ("POST", "/jobs"),
        ("DELETE", "/cluster"),
    ]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request(method, page, body=b"{}" if method == "POST" else None)
            answers[f"{method} {page}"] = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            answers[f"{method} {page}"] = type(error).__name__
        finally:
            connection.close()
    return answers


def call_methods(port: int) -> dict[str, Any]:
    """The gRPC status of each method, and how many messages came back."""
    answers: dict[str, Any] = {}
    with grpc.insecure_channel(f"ipv4:127.0.0.1:{port}") as channel:
        for method in METHODS:
            for name, metadata in (
                ("", ()),
                (" with a token", (("authorization", "Bearer none"), ("stoker-challenge", "00"))),
            ):
                call = channel.stream_stream(method)(
                    iter([b"\x91\x92\x00\xa0", b"\n\x04none"]), timeout=SECONDS, metadata=metadata
                )
                messages = 0
                with contextlib.suppress(grpc.RpcError):
                    for _ in call:
                        messages += 1
                answers[f"{method}{name}"] = [call.code().name, messages]
    return answers


def ask_spark(port: int) -> str:
    """What Spark's driver or block manager says to a request without authentication."""
    body = b"\x00" * 16
    frame = struct.pack(">qbqi", 8 + 1 + 8 + 4 + len(body), RPC_REQUEST, 1, len(body)) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(frame)
            head = connection.recv(9)
            if len(head) < 9:
                return "closed"
            if head[8] != RPC_FAILURE:
                return "answered" if head[8] == RPC_RESPONSE else f"said {head!r}"
            return f"refused {connection.recv(65536).decode(errors='replace')[:300]}"
    except OSError as error:
        return type(error).__name__


def ask_gateway(port: int) -> str:
    """What py4j says to a command without its token."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(b"r\nu\njava.lang.System\nrj\ne\n")
            return connection.recv(200).decode(errors="replace")
    except OSError as error:
        return type(error).__name__


def take_port(port: int) -> bool:
    """Whether the stranger can listen at ::1 on this port."""
    try:
        with socket.socket(socket.AF_INET6) as thief:
            thief.bind(("::1", port))
            thief.listen()
    except OSError:
        return False
    return True


def try_port(port: int) -> dict[str, Any]:
    return {
        "pages": ask_pages(port),
        "methods": call_methods(port),
        "spark": ask_spark(port),
        "gateway": ask_gateway(port),
        "can listen": take_port(port),
    }


def main() -> None:
    task = json.load(sys.stdin)
    # Loads all code that is needed: the stranger may not even read the interpreter.
    try_port(UNUSED_PORT)
    become(task["uid"])
    json.dump(
        {
            "uid": os.getuid(),
            "paths": {path: done for path in task["paths"] if (done := try_path(path))},
            "ports": {port: try_port(port) for port in task["ports"]},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()

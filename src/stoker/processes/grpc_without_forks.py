"""gRPC for a process that starts other processes; must be imported before any other import of gRPC.

gRPC installs functions that run in every child between `fork` and `exec`, so that a child that
continues in Python can use gRPC. libuv, with which uvloop starts processes, forks too.
While gRPC calls are under way, one in ten of its children dies of SIGSEGV or SIGABRT in gRPC's
threads before its `exec`. These children need no gRPC, so the functions are not installed here.

gRPC reads the variable when it is imported. The variable is removed afterwards, so that child
processes, and user code in them, may fork as they like.
"""

import importlib
import os

_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"


def _import_grpc() -> None:
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "false"
    try:
        importlib.import_module("grpc")
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


_import_grpc()

"""gRPC for a process that starts others; imported before anybody else imports gRPC.

gRPC has functions run in every child between `fork` and `exec`, so that one that is forked and goes
on in Python can use it. libuv, by which uvloop starts processes, forks too: its children end by
SIGSEGV or SIGABRT in gRPC's threads, one in ten where calls are under way, before they are what
they shall be. They need no gRPC, so these functions are not installed here.

The variable is read when gRPC is imported. It does not stay: processes that are started from here,
and user code in them, may fork as they like.
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

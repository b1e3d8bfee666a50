"""Child processes of a master or task executor, started during its RPC calls."""

import subprocess
import sys

import pytest

CHILDREN = 150
"""One child in ten used to end by a signal, so 150 do not all succeed by luck."""

SCRIPT = f"""
import asyncio, collections, importlib, os, sys
importlib.import_module(sys.argv[1])
import grpc
from stoker.cli.service import run

class Echo(grpc.GenericRpcHandler):
    def service(self, _call):
        async def answer(request, _context):
            return request
        return grpc.unary_unary_rpc_method_handler(answer)

async def main():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{{port}}")
    call = channel.unary_unary("/echo/echo")

    async def keep_calling():
        while True:
            await call(b"hello")

    calling = [asyncio.create_task(keep_calling()) for _ in range(4)]
    ends = collections.Counter()
    for _ in range({CHILDREN}):
        process = await asyncio.create_subprocess_exec("true", start_new_session=True)
        ends[await process.wait()] += 1
    print(dict(ends), os.environ.get("GRPC_ENABLE_FORK_SUPPORT"), flush=True)
    os._exit(0)

run(main())
"""


@pytest.mark.parametrize("command", ["master", "task_executor"])
def test_child_processes_start_during_any_number_of_rpc_calls(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"stoker.cli.commands.{command}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split("\n")[0] == f"{{0: {CHILDREN}}} None", done.stdout + done.stderr

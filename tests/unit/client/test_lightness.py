"""The command line imports the blocking client, so it must load almost nothing."""

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "click", "grpc", "httpx", "litestar", "pyspark", "uvicorn", "yaml")


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


def test_the_blocking_client_loads_no_heavy_library() -> None:
    assert loaded_by("stoker.client.blocking").isdisjoint(HEAVY)


@pytest.mark.parametrize("module", ["stoker.client.asynchronous"])
def test_no_client_loads_a_server_or_spark(module: str) -> None:
    assert loaded_by(module).isdisjoint({"grpc", "litestar", "pyspark", "uvicorn"})


def test_the_server_loads_neither_an_http_client_nor_the_document_generator_at_its_start() -> None:
    assert loaded_by("stoker.rest.app").isdisjoint({"httpx", "rich", "grpc", "pyspark"})

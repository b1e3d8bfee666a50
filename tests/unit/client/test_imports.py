"""The command line imports the blocking client, so it must load almost nothing."""

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "click", "grpc", "httpx", "pyspark", "uvicorn", "yaml")


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


def test_the_blocking_client_loads_no_heavy_library() -> None:
    assert loaded_by("stoker.client.blocking").isdisjoint(HEAVY)


HTTPX = {"httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio", "typing_extensions"}
"""httpx and the packages that it imports."""
ALONE = """
import sys
from importlib.metadata import packages_distributions

absent = set(packages_distributions()) - set(sys.argv[2:]) - {"stoker"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in [each for each in sys.modules if each.partition(".")[0] in absent]:
    del sys.modules[name]
__import__(sys.argv[1])
import stoker
print(stoker.connect("http://127.0.0.1:1").job("1" * 32))
if "httpx" in sys.argv:
    print(stoker.connect_async("http://127.0.0.1:1").job("2" * 32))
"""


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        ("stoker.client.cluster", {"msgspec"}),
        ("stoker.client.asynchronous", {"msgspec", *HTTPX}),
    ],
)
def test_the_clients_need_no_packages_but_msgspec_and_httpx(module: str, wanted: set[str]) -> None:
    """No other package can be imported here. The blocking client does without httpx, too."""
    command = [sys.executable, "-c", ALONE, module, *sorted(wanted)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert f"<stoker job {'1' * 12}>" in run.stdout


def test_the_rest_server_loads_no_http_client_and_no_spark_or_grpc_at_its_start() -> None:
    assert loaded_by("stoker.rest.app").isdisjoint({"httpx", "rich", "grpc", "pyspark"})

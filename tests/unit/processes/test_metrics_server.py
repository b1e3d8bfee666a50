"""The port at which a task executor shows its metrics."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from stoker.config.configuration import Configuration
from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.processes import TaskExecutorProcessOptions
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import InvalidOption
from stoker.core.ids import Ids
from stoker.processes.metrics_server import serving_metrics
from stoker.processes.opening import ProcessResources, open_process_resources
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of


def configured(tmp_path: Path, **settings: str) -> Configuration:
    chosen = {
        "high-availability.storageDir": str(tmp_path / "storage"),
        "process.working-dir": str(tmp_path / "work"),
        **{key.replace("__", "-").replace("_", "."): value for key, value in settings.items()},
    }
    return configuration_from(
        OptionTree(ALL),
        settings_on_command_line([f"{key}={value}" for key, value in chosen.items()]),
    )


async def opened(stack: AsyncExitStack, configuration: Configuration) -> ProcessResources:
    return await open_process_resources(
        stack,
        configuration,
        configuration.of(TaskExecutorProcessOptions),
        ids=Ids(),
        kind="executor",
        bind_host_key="taskmanager.bind-host",
        host_key="taskmanager.host",
        is_over=lambda: False,
    )


@pytest.fixture
async def resources(tmp_path: Path) -> AsyncIterator[ProcessResources]:
    async with AsyncExitStack() as stack:
        yield await opened(stack, configured(tmp_path))


async def test_a_process_that_is_not_to_measure_itself_shows_nothing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        resources = await opened(stack, configured(tmp_path, metrics_enabled="false"))
        await resources.storage.write("a", b"content")
        assert resources.metrics.collect() == []


async def test_a_process_measures_itself_and_its_storage(resources: ProcessResources) -> None:
    await resources.storage.write("a", b"content")
    names = {family.name for family in resources.metrics.collect()}
    assert {"process_cpu_seconds_total", "stoker_storage_operation_duration_seconds"} <= names


async def test_no_port_is_opened_unless_one_is_asked_for(
    tmp_path: Path, resources: ProcessResources
) -> None:
    async with serving_metrics(configured(tmp_path), resources) as url:
        assert url == ""


async def test_a_drawn_port_shows_the_process_and_nothing_else(
    tmp_path: Path, resources: ProcessResources
) -> None:
    async with (
        serving_metrics(configured(tmp_path, metrics_port="0"), resources) as url,
        httpx.AsyncClient() as http,
    ):
        answer = await http.get(url)
        assert (await http.get(url.replace("/metrics", "/jobs"))).status_code == 404
        assert (await http.get(f"{url}/targets")).status_code == 404
    assert url.startswith("http://127.0.0.1:")
    assert answer.status_code == 200
    assert 'stoker_build_info{component="executor"' in answer.text
    assert "process_resident_memory_bytes" in answer.text


async def test_tokens_of_the_cluster_protect_the_port_as_well(
    tmp_path: Path, resources: ProcessResources
) -> None:
    text = text_of("one", "secret")
    TokenFile(tmp_path / "tokens.json").add(
        Token(id="one", name="one", role=Role.READ, sha256=hash_of(text), created_ms=0)
    )
    configuration = configured(
        tmp_path, metrics_port="0", security_rest_tokens=str(tmp_path / "tokens.json")
    )
    async with (
        serving_metrics(configuration, resources) as url,
        httpx.AsyncClient() as http,
    ):
        assert (await http.get(url)).status_code == 401
        headers = {"authorization": f"Bearer {text}"}
        assert (await http.get(url, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"metrics_bind__address": "192.0.2.1"}, r"metrics\.bind-address 192\.0\.2\.1"),
        ({"metrics_port": "many"}, r"metrics\.port"),
    ],
)
async def test_an_address_that_cannot_be_is_refused_by_its_option(
    settings: dict[str, str], named: str, tmp_path: Path, resources: ProcessResources
) -> None:
    configuration = configured(tmp_path, **{"metrics_port": "0", **settings})
    with pytest.raises(InvalidOption, match=named):
        async with serving_metrics(configuration, resources):
            pass

"""What a process opens at its start."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.processes import MasterOptions
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import InvalidOption, StartupFailed
from stoker.core.ids import Ids
from stoker.processes.opening import open_first_session, open_process_resources


async def test_a_coordinator_that_does_not_answer_stops_the_start_with_its_address() -> None:
    configuration = configuration_from(
        OptionTree(ALL),
        settings_on_command_line(
            [
                "high-availability=zookeeper://127.0.0.1:1/stoker",
                "high-availability.zookeeper.client.connection-timeout=1 s",
            ]
        ),
    )
    with pytest.raises(StartupFailed, match=r"zookeeper://127\.0\.0\.1:1/stoker cannot be reached"):
        await open_first_session(configuration, Ids(), auto_renewing=True)


async def test_a_process_that_listens_on_all_interfaces_needs_an_address_to_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told before anything is created, and which option to set."""
    monkeypatch.setattr("stoker.processes.opening.rpc_credentials", lambda *_: None)
    configuration = configuration_from(
        OptionTree(ALL), settings_on_command_line([f"process.working-dir={tmp_path / 'work'}"])
    )
    options = replace(configuration.of(MasterOptions), bind_host="0.0.0.0")
    async with AsyncExitStack() as stack:
        with pytest.raises(InvalidOption, match=r"set jobmanager\.rpc\.address to the name"):
            await open_process_resources(
                stack,
                configuration,
                options,
                ids=Ids(),
                kind="master",
                bind_host_key="jobmanager.bind-host",
                host_key="jobmanager.rpc.address",
                is_over=lambda: False,
            )
    assert not (tmp_path / "work").exists()

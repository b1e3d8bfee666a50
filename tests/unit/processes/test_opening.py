"""What a process opens at its start."""

import pytest

from stoker.config.load import configuration_from
from stoker.config.options import ALL
from stoker.config.sources import settings_on_command_line
from stoker.config.tree import OptionTree
from stoker.core.errors import StartupFailed
from stoker.core.ids import Ids
from stoker.processes.opening import open_first_session


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

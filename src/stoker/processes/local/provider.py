"""The provider of a master, and the configuration of the task executors that it starts."""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.config.configuration import Configuration
from stoker.core.ids import Ids, ResourceId
from stoker.metrics.options import PORT_OFF, MetricOptions
from stoker.metrics.process import machine_memory
from stoker.processes.directories import Directories
from stoker.processes.inspection.usage import cores
from stoker.resourcemanager.local_processes import LocalProcessProvider
from stoker.resourcemanager.options import ProviderKind, ResourceManagerOptions
from stoker.resourcemanager.provider import (
    ExecutorOffer,
    Provider,
    StandaloneProvider,
    slot_profile,
)
from stoker.taskexecutor.options import TaskExecutorOptions

CONFIGURATION_FILE = "task-executors.yml"


@asynccontextmanager
async def open_provider(
    configuration: Configuration, directories: Directories, ids: Ids
) -> AsyncIterator[Provider]:
    options = configuration.of(ResourceManagerOptions)
    if options.provider is ProviderKind.STANDALONE:
        yield StandaloneProvider()
        return
    slots = configuration.of(TaskExecutorOptions).slots
    places = directories.work / "task-executors"
    # A previous instance of this master may have been killed together with its task executors.
    shutil.rmtree(places, ignore_errors=True)
    file = _write_configuration(configuration, directories.work / CONFIGURATION_FILE)
    shows_metrics = configuration.of(MetricOptions).port != PORT_OFF
    async with LocalProcessProvider(
        command=lambda resource_id: _command(
            resource_id, file, places, directories.logs, shows_metrics=shows_metrics
        ),
        limit=options.max_executors,
        offer=ExecutorOffer(slots=slots, profile=slot_profile(cores(), machine_memory(), slots)),
        log_dir=directories.logs / "task-executors",
        ids=ids,
        forget=lambda resource_id: shutil.rmtree(places / resource_id, ignore_errors=True),
    ) as provider:
        yield provider


def _write_configuration(configuration: Configuration, path: Path) -> Path:
    """Write the settings of this master for the task executors; they may contain secrets."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(configuration.as_file_text())
    return path


def _command(
    resource_id: ResourceId, file: Path, places: Path, logs: Path, *, shows_metrics: bool
) -> list[str]:
    settings = {
        "taskmanager.resource-id": resource_id,
        "taskmanager.on-demand": "true",
        # Several task executors on one machine cannot share a port.
        "taskmanager.rpc.port": "0",
        **({"metrics.port": "0"} if shows_metrics else {}),
        "process.working-dir": str(places),
        "process.log-dir": str(logs / "task-executors" / resource_id),
    }
    definitions = [f"-D{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "stoker.cli.main", "task-executor", "--config", str(file)]
    return [*command, *definitions]

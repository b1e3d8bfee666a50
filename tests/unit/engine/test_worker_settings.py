"""Which Spark servers start Stoker's own daemon for their Python workers."""

import os
from importlib.machinery import PathFinder

import pytest

from stoker.engine.worker_settings import worker_environment, worker_properties


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[1,1,1024]"])
def test_workers_on_this_machine_find_the_daemon(master: str) -> None:
    module = worker_properties(master)["spark.python.daemon.module"]
    path = worker_environment(master, "/of/the/user")["PYTHONPATH"].split(os.pathsep)
    assert path[0] == "/of/the/user"
    assert PathFinder.find_spec(module, path) is not None


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_workers_elsewhere_keep_sparks_own_daemon(master: str) -> None:
    assert worker_properties(master) == {}
    assert worker_environment(master, "/of/the/user") == {}


def test_no_empty_entry_makes_the_working_directory_importable() -> None:
    assert not worker_environment("local[*]", "")["PYTHONPATH"].startswith(os.pathsep)

"""Code of a job sees the environment variables of its task executor by an allow-list."""

import pytest

from stoker.engine.inherited_variables import for_installers, for_jobs
from stoker.osproc.orphans import OWNER, SERVER

SECRET = {
    "AWS_SECRET_ACCESS_KEY": "x",
    "STOKER_CLIENT_TOKEN": "x",
    "STOKER_HA_ZOOKEEPER_AUTH": "x",
    "DATABASE_URL": "x",
    "SPARK_REMOTE": "sc://elsewhere",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": "x",
    "PYSPARK_GATEWAY_SECRET": "x",
    "PIP_INDEX_URL": "https://user:password@packages.example/simple",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": "/lib",
    "SPARK_CONF_DIR": "/etc/spark",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "https_proxy": "http://proxy:3128",
    OWNER: "mark",
    SERVER: "mark",
}


def test_a_job_gets_what_programs_need_and_no_secrets() -> None:
    assert for_jobs(SECRET | NEEDED, ()) == NEEDED


def test_an_operator_can_add_names_and_patterns() -> None:
    passed = for_jobs(SECRET | NEEDED, ("AWS_*", "DATABASE_URL"))
    assert passed.keys() - NEEDED.keys() == {"AWS_SECRET_ACCESS_KEY", "DATABASE_URL"}


@pytest.mark.parametrize("pattern", ["*", "SPARK_*", "SPARK_REMOTE"])
def test_a_job_is_never_connected_to_another_spark(pattern: str) -> None:
    assert "SPARK_REMOTE" not in for_jobs(SECRET, (pattern,))


def test_an_installer_also_learns_where_to_install_from() -> None:
    passed = for_installers(SECRET | NEEDED, ())
    assert passed.keys() - NEEDED.keys() == {"PIP_INDEX_URL"}

"""The configuration of the Spark server."""

from datetime import timedelta
from pathlib import Path

import pytest

from stoker.engine.java import Java
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import (
    NOWHERE,
    ServerFiles,
    is_on_this_machine,
    spark_environment,
    spark_properties,
)

JAVA = Java(home=Path("/java"), version=17)


def properties_for(master: str, **settings: str) -> dict[str, str]:
    options = EngineOptions(master=master, spark_properties=settings)
    return spark_properties(options, ServerFiles(work=Path("/w"), logs=Path("/l")), cores=2)


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        (
            "yarn",
            {"spark.yarn.queue": "nightly", "spark.executor.instances": "4"},
        ),
        (
            "k8s://https://cluster:6443",
            {"spark.kubernetes.container.image": "spark", "spark.kubernetes.namespace": "jobs"},
        ),
        ("spark://one:7077,two:7077", {"spark.cores.max": "8"}),
    ],
)
def test_a_remote_cluster_gets_no_settings_for_this_machine(
    master: str, settings: dict[str, str]
) -> None:
    properties = properties_for(master, **settings)
    assert properties["spark.master"] == master
    assert settings.items() <= properties.items()
    assert "spark.driver.host" not in properties


@pytest.mark.parametrize("master", ["local[*]", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_a_server_for_a_local_master_listens_on_loopback_only(master: str) -> None:
    assert properties_for(master)["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_master_elsewhere_is_not_on_this_machine() -> None:
    assert not is_on_this_machine("spark://127.0.0.1:7077,other:7077")
    assert not is_on_this_machine("yarn")


def test_an_idle_session_keeps_its_streams() -> None:
    """By default, Spark would stop such streams after an hour."""
    timeout = properties_for("local[2]")["spark.connect.session.manager.defaultSessionTimeout"]
    assert timeout == "3650d"


def test_a_server_and_its_replacement_share_no_file() -> None:
    first, second = (
        ServerFiles(work=Path("/w"), logs=Path("/l"), generation=number) for number in (1, 2)
    )
    for name in ("own", "mark", "properties", "log4j", "log"):
        assert getattr(first, name) != getattr(second, name)


@pytest.mark.parametrize("master", ["yarn", "spark://127.0.0.1:7077", "k8s://https://cluster:6443"])
def test_on_a_cluster_executors_with_uninterruptible_tasks_are_killed(master: str) -> None:
    """By default, Spark looks for such tasks only every ten seconds."""
    properties = properties_for(master)
    assert properties["spark.task.reaper.enabled"] == "true"
    assert properties["spark.task.reaper.killTimeout"] == "3000ms"
    assert properties["spark.task.reaper.pollingInterval"] == "600ms"
    spared = properties_for(master, **{"spark.task.reaper.enabled": "false"})
    assert spared["spark.task.reaper.enabled"] == "false"


def test_without_a_cancellation_timeout_uninterruptible_tasks_are_not_killed() -> None:
    options = EngineOptions(master="yarn", cancellation_timeout=timedelta(0))
    properties = spark_properties(options, ServerFiles(work=Path("/w"), logs=Path("/l")), cores=2)
    assert not any("reaper" in name for name in properties)


@pytest.mark.parametrize(("java", "is_used"), [(17, True), (21, True), (22, False), (None, False)])
def test_vfork_is_used_only_with_a_java_known_to_support_it(
    java: int | None, is_used: bool
) -> None:
    """Any other Java would refuse to start processes, including Python workers."""
    files = ServerFiles(work=Path("/w"), logs=Path("/l"))
    properties = spark_properties(EngineOptions(), files, cores=2, java=java)
    options = properties["spark.driver.extraJavaOptions"].split()
    assert ("-Djdk.lang.Process.launchMechanism=VFORK" in options) is is_used


def test_the_jars_of_spark_come_first_on_the_class_path() -> None:
    files = ServerFiles(work=Path("/w"), logs=Path("/l"))
    jars = [Path("/spark/jars/spark-core.jar"), Path("/spark/jars/spark-sql.jar")]
    properties = spark_properties(EngineOptions(), files, cores=2, first_jars=jars)
    assert properties["spark.driver.extraClassPath"] == ":".join(map(str, jars))


def test_a_class_path_set_by_the_user_is_not_changed() -> None:
    setting = {"spark.driver.extraClassPath": "/mine/*"}
    files = ServerFiles(work=Path("/w"), logs=Path("/l"))
    options = EngineOptions(spark_properties=setting)
    properties = spark_properties(options, files, cores=2, first_jars=[Path("/spark.jar")])
    assert setting.items() <= properties.items()


def test_settings_of_the_user_win_over_the_defaults(tmp_path: Path) -> None:
    options = EngineOptions(spark_properties={"spark.sql.shuffle.partitions": "7"})
    files = ServerFiles(work=tmp_path / "w", logs=tmp_path / "l")
    properties = spark_properties(options, files, cores=2)
    assert properties["spark.sql.shuffle.partitions"] == "7"
    assert properties["spark.driver.memory"] == "1024m"
    files.write(properties)
    assert files.properties.stat().st_mode & 0o777 == 0o600


def test_a_percent_sign_in_a_directory_is_no_escape() -> None:
    """Spark reads this path literally."""
    files = ServerFiles(work=Path("/a%20b"), logs=Path("/l"))
    found = spark_properties(EngineOptions(), files, cores=2)
    assert found["spark.sql.warehouse.dir"] == "/a%20b/warehouse"


@pytest.mark.parametrize(
    ("locale", "expected"), [("C", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8"), ("", "C.UTF-8")]
)
def test_java_can_use_file_names_that_are_not_ascii(
    monkeypatch: pytest.MonkeyPatch, locale: str, expected: str
) -> None:
    for name in ("LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", locale)
    assert spark_environment(EngineOptions(master="yarn"), JAVA)["LC_ALL"] == expected


def test_nothing_can_be_created_in_the_working_directory_of_sparks_processes() -> None:
    """Not even by root, and containers often run as root."""
    for create in (Path.mkdir, Path.touch):
        with pytest.raises(OSError):
            create(NOWHERE / "anything")

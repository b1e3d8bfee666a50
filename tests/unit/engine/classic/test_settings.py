"""What a job can reuse of a spare driver, and the settings of new drivers."""

from pathlib import Path

import pytest

from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.settings import Fit, driver_properties, fit_of
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import ServerFiles


@pytest.mark.parametrize(
    ("settings", "environment", "fit"),
    [
        ({}, {}, Fit.CONTEXT),
        ({"spark.sql.shuffle.partitions": "3"}, {"DAY": "2026-11-01"}, Fit.CONTEXT),
        ({"pipeline.name": "not for Spark"}, {}, Fit.CONTEXT),
        ({"spark.executor.memory": "2g"}, {}, Fit.JVM),
        ({"spark.master": "local[1]"}, {}, Fit.JVM),
        ({"spark.sql.extensions": "x.Y"}, {}, Fit.JVM),
        ({"spark.my.own": "1"}, {}, Fit.JVM),
        ({"spark.driver.memory": "2g"}, {}, Fit.NOTHING),
        ({"spark.jars.packages": "a:b:1"}, {}, Fit.NOTHING),
        ({"spark.master": "yarn"}, {}, Fit.NOTHING),
        ({"spark.master": "k8s://https://host"}, {}, Fit.NOTHING),
        ({}, {"SPARK_LOCAL_DIRS": "/big"}, Fit.NOTHING),
        ({}, {"PYTHONHASHSEED": "1"}, Fit.NOTHING),
    ],
)
def test_settings_and_environment_decide_what_a_spare_driver_can_provide(
    settings: dict[str, str], environment: dict[str, str], fit: Fit
) -> None:
    assert fit_of(settings, environment) is fit


def properties(own: dict[str, str], **cluster: str) -> dict[str, str]:
    options = EngineOptions(spark_properties=(cluster and {"spark.ui.port": cluster["port"]}) or {})
    files = ServerFiles(work=Path("/work"), logs=Path("/logs"))
    return driver_properties(options, ClassicOptions(), files, own)


def test_a_program_finds_the_defaults_of_spark_not_those_of_the_shared_server() -> None:
    found = properties({})
    assert "spark.sql.shuffle.partitions" not in found
    assert not any(key.startswith("spark.connect.") for key in found)
    assert found["spark.driver.memory"] == "1024m"
    assert found["spark.sql.warehouse.dir"] == "/work/warehouse"


def test_the_settings_of_the_job_win_over_those_of_the_cluster() -> None:
    found = properties({"spark.driver.memory": "3g", "spark.ui.port": "4041"}, port="4050")
    assert found["spark.driver.memory"] == "3g"
    assert found["spark.ui.port"] == "4041"
    assert properties({}, port="4050")["spark.ui.port"] == "4050"


def test_java_options_of_the_job_are_added_to_those_that_stoker_needs() -> None:
    found = properties({"spark.driver.extraJavaOptions": "-Dmine=1"})
    assert found["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert "-Djava.io.tmpdir=" in found["spark.driver.extraJavaOptions"]

"""Settings by which strangers could use Spark are refused."""

import pytest

from stoker.core.errors import InvalidOption
from stoker.engine.options import EngineOptions
from stoker.engine.spark_access import check_spark_access

YARN = {"spark.authenticate": "true", "spark.driver.host": "10.0.0.7"}


def check(master: str, settings: dict[str, str]) -> None:
    check_spark_access(EngineOptions(master=master, spark_properties=settings))


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        ("local[*]", {}),
        ("local", {"spark.authenticate": "false"}),
        ("local[2]", {"spark.connect.grpc.binding.address": "127.0.0.1"}),
        ("local[2]", {"spark.driver.bindAddress": "0.0.0.0"}),
        ("spark://127.0.0.1:7077", {"spark.authenticate": "false"}),
        ("yarn", YARN),
        ("k8s://https://cluster:6443", YARN),
    ],
)
def test_a_spark_for_members_only_is_accepted(master: str, settings: dict[str, str]) -> None:
    check(master, settings)


@pytest.mark.parametrize(
    ("master", "settings", "reason"),
    [
        ("spark://127.0.0.1:7077", {}, "spark.authenticate is not set"),
        ("local-cluster[2,1,1024]", {}, "spark.authenticate is not set"),
        ("yarn", {"spark.driver.host": "10.0.0.7"}, "spark.authenticate is not set"),
        ("yarn", {"spark.authenticate": "true"}, "spark.driver.host is not set"),
        ("yarn", YARN | {"spark.authenticate": "false"}, "spark.driver.host 10.0.0.7 can be"),
        (
            "local[2]",
            {"spark.driver.bindAddress": "0.0.0.0", "spark.authenticate": "false"},
            "spark.driver.bindAddress 0.0.0.0 can be",
        ),
        (
            "local[2]",
            {"spark.connect.grpc.binding.address": "0.0.0.0"},
            "spark.connect.grpc.binding.address 0.0.0.0 can be",
        ),
    ],
)
def test_a_spark_that_strangers_could_use_is_refused(
    master: str, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidOption, match=reason.replace(".", r"\.")):
        check(master, settings)

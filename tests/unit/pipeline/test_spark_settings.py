"""Misspelt settings of Spark are noticed, and others are left alone."""

import pytest

from stoker.pipeline.spark_settings import doubtful_settings


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("spark.sql.shuffle.partitoins", "spark.sql.shuffle.partitions"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("spark.driver.memmory", "spark.driver.memory"),
        ("spark.sql.adaptive.enable", "spark.sql.adaptive.enabled"),
    ],
)
def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(key: str, meant: str) -> None:
    assert doubtful_settings([key, meant]) == [
        f"{key} is not a setting that Spark knows; did you mean '{meant}'?"
    ]


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.shuffle.partitions",
        "spark.executor.memory",
        "spark.master",
        "spark.sql.catalog.spark_catalog2",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.sql.extensions",
        "spark.databricks.delta.schema.autoMerge.enabled",
        "parallelism.default",
    ],
)
def test_known_settings_and_those_of_extensions_are_left_alone(key: str) -> None:
    assert doubtful_settings([key]) == []

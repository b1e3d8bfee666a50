"""Where materialized results are stored, and which parameters a query names."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.options import EngineOptions
from stoker.engine.region.compile import arguments_of
from stoker.engine.region.locations import materialized_directory, safe_name
from stoker.engine.server_config import ServerFiles, spark_properties


@given(first=st.text(), second=st.text())
def test_different_vertices_never_share_a_directory(first: str, second: str) -> None:
    assert (safe_name(first) == safe_name(second)) == (first == second)
    assert re.fullmatch(r"[A-Za-z0-9_-]*", safe_name(first))


def test_a_directory_is_local_when_its_url_says_so() -> None:
    assert materialized_directory("file:///a%20b", "v").local == Path("/a b/v")
    assert materialized_directory("/a", "v").local == Path("/a/v")
    assert materialized_directory("s3://bucket/x/", "v").local is None
    assert materialized_directory("s3://bucket/x/", "v").url == "s3://bucket/x/v"


def test_a_query_gets_the_parameters_that_it_names() -> None:
    query = "SELECT a::int, ':' FROM t WHERE day = :day AND n < :limit"
    parameters = {"day": "1", "limit": "2", "int": "3", "other": "4"}
    assert arguments_of(query, parameters) == {"day": "1", "limit": "2"}


def test_settings_of_the_user_win_over_the_defaults(tmp_path: Path) -> None:
    options = EngineOptions(spark_properties={"spark.sql.shuffle.partitions": "7"})
    files = ServerFiles(work=tmp_path / "w", logs=tmp_path / "l")
    properties = spark_properties(options, files, cores=2)
    assert properties["spark.sql.shuffle.partitions"] == "7"
    assert properties["spark.driver.memory"] == "1024m"
    files.write(properties)
    assert files.properties.stat().st_mode & 0o777 == 0o600

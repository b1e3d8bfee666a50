"""Building the DataFrames of a region, as far as that needs no Spark."""

from stoker.engine.region.compile import arguments_of


def test_a_query_gets_the_parameters_that_it_names() -> None:
    query = "SELECT a::int, ':' FROM t WHERE day = :day AND n < :limit"
    parameters = {"day": "1", "limit": "2", "int": "3", "other": "4"}
    assert arguments_of(query, parameters) == {"day": "1", "limit": "2"}

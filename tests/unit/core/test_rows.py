"""Rows survive the way through JSON, and are tuples with names."""

import copy
import json
import math
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.rows import Row, decoder, encoder, is_known_type

PLAIN = {
    "binary": st.binary(),
    "boolean": st.booleans(),
    "date": st.dates(),
    "decimal(38,10)": st.decimals(allow_nan=False, allow_infinity=False, places=10),
    "double": st.floats(allow_nan=False),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "interval day to second": st.timedeltas(timedelta(days=-999), timedelta(days=999)),
    "long": st.integers(-(2**63), 2**63 - 1),
    "string": st.text("aö世🌍\n\0'"),
    "time(6)": st.times(),
    "timestamp_ntz": st.datetimes(),
    "void": st.none(),
}


def struct(*types: Any) -> dict[str, Any]:
    """A struct all of whose fields have the same name, which Spark allows."""
    return {"type": "struct", "fields": [{"name": "same", "type": each} for each in types]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def values_of(type_: Any) -> st.SearchStrategy[Any]:
    match type_:
        case {"type": "array", "elementType": element}:
            found = st.lists(values_of(element), max_size=3)
        case {"type": "map", "keyType": key, "valueType": value}:
            found = st.dictionaries(PLAIN[key], values_of(value), max_size=3)
        case {"type": "struct", "fields": fields}:
            found = st.tuples(*(values_of(field["type"]) for field in fields))
        case _:
            found = PLAIN[type_]
    return st.none() | found


TYPES = st.recursive(
    st.sampled_from(sorted(PLAIN)),
    lambda inner: (
        inner.map(array)
        | st.lists(inner, max_size=3).map(lambda types: struct(*types))
        | inner.map(lambda value: mapping("string", value))
    ),
    max_leaves=4,
)


@given(st.data())
def test_every_value_survives_the_way_through_json(data: st.DataObject) -> None:
    type_ = data.draw(TYPES)
    value = data.draw(values_of(type_))
    assert is_known_type(type_)
    text = json.dumps(encoder(type_)(value), allow_nan=False) if _is_finite(value) else None
    if text is not None:
        assert decoder(type_)(json.loads(text)) == value


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_lacks_survive(value: float) -> None:
    text = json.dumps(encoder("double")(value), allow_nan=False)
    assert str(decoder("double")(json.loads(text))) == str(value)


def test_a_timestamp_comes_back_at_the_same_instant_with_its_time_zone() -> None:
    local = datetime(2026, 7, 1, 12, 0, 0, 5)
    assert decoder("timestamp")(encoder("timestamp")(local)) == local.astimezone(UTC)
    assert decoder("timestamp")(encoder("timestamp")(local)).tzinfo is not None


def test_a_map_whose_keys_no_dict_can_have_is_a_list_of_pairs() -> None:
    type_ = mapping(array("long"), "string")
    assert decoder(type_)([[[1], "one"], [[2], None]]) == [([1], "one"), ([2], None)]


@pytest.mark.parametrize(
    "type_",
    ["interval year to month", "interval", "variant", {"type": "udt"}, array("variant")],
)
def test_types_that_python_cannot_represent_are_unknown(type_: Any) -> None:
    assert not is_known_type(type_)


@pytest.mark.parametrize("type_", ["char(3)", "varchar(9)", "string collate UNICODE", "time(0)"])
def test_variants_of_known_types_are_known(type_: str) -> None:
    assert is_known_type(type_)


def test_a_row_gives_its_values_by_position_name_and_attribute() -> None:
    row = Row(["id", "count", "id"], [1, 2, 3])
    assert (row[0], row[-1], row[:2]) == (1, 3, (1, 2))
    assert (row["id"], row["count"], row.id) == (1, 2, 1)
    assert row == (1, 2, 3)
    assert row.as_dict() == {"id": 3, "count": 2}
    assert repr(row) == "Row(id=1, count=2, id=3)"


def test_a_row_says_which_column_it_lacks() -> None:
    row = Row(["id"], [1])
    with pytest.raises(KeyError, match="idd"):
        row["idd"]
    with pytest.raises(AttributeError, match="the row has no column 'idd'"):
        _ = row.idd


def test_a_row_can_be_copied_and_pickled() -> None:
    row = Row(["id", "at"], [1, date(2026, 1, 1)])
    for copied in (copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert copied == row
        assert copied.columns == ("id", "at")


def test_values_are_texts_where_json_would_lose_them() -> None:
    assert encoder("decimal(10,2)")(Decimal("1.10")) == "1.10"
    assert encoder("time(6)")(time(1, 2, 3)) == "01:02:03"
    assert encoder("binary")(b"\x00\xff") == "AP8="

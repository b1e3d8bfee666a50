"""Batches written to a real PostgreSQL: repeated, failing half-way, and with equal keys."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from integration.postgres import postgres
from stoker.sinks import append_to_postgres, upsert_to_postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


class Rows:
    """The part of a batch's DataFrame that the sinks use: its columns and an iterator of rows."""

    def __init__(self, *rows: tuple[Any, ...], dies_after: int | None = None) -> None:
        self.columns = ["id", "total"]
        self._rows = rows
        self._dies_after = dies_after

    def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:
        for number, row in enumerate(self._rows):
            if number == self._dies_after:
                raise ConnectionError("the worker is gone")
            yield row


def create(database: str, table: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(f'CREATE TABLE "{table}" (id bigint PRIMARY KEY, total text)')


def content(database: str, table: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute(f'SELECT * FROM "{table}" ORDER BY id').fetchall()


def test_a_repeated_upsert_changes_nothing(database: str) -> None:
    create(database, "upserted")
    write = upsert_to_postgres(database, "public.upserted", keys=["id"])
    write(Rows((1, "a"), (2, None)), 0)
    for _ in range(2):
        write(Rows((2, "first"), (3, "c"), (2, "last")), 1)
    assert content(database, "upserted") == [(1, "a"), (2, "last"), (3, "c")]


def test_a_batch_that_fails_half_way_leaves_no_rows_and_can_be_repeated(database: str) -> None:
    create(database, "cut off")
    write = upsert_to_postgres(database, "cut off", keys=["id"])
    with pytest.raises(ConnectionError):
        write(Rows((1, "a"), (2, "b"), dies_after=1), 0)
    assert content(database, "cut off") == []
    write(Rows((1, "a"), (2, "b")), 0)
    assert content(database, "cut off") == [(1, "a"), (2, "b")]


def test_columns_that_a_batch_does_not_fill_get_their_defaults(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE dated (id bigint PRIMARY KEY, total text, kind text NOT NULL DEFAULT 'x')"
        )
    write = upsert_to_postgres(database, "dated", keys=["id"])
    write(Rows((1, "a"), (1, "b")), 0)
    assert content(database, "dated") == [(1, "b", "x")]


def test_an_appended_batch_is_added_once(database: str) -> None:
    create(database, "appended")
    write = append_to_postgres(database, "appended", sink="orders")
    with pytest.raises(ConnectionError):
        write(Rows((1, "a"), (2, "b"), dies_after=1), 0)
    for batch_id, row in ((0, (1, "a")), (0, (1, "a")), (1, (2, "b")), (1, (2, "b"))):
        write(Rows(row), batch_id)
    assert content(database, "appended") == [(1, "a"), (2, "b")]
    append_to_postgres(database, "appended", sink="others")(Rows((3, "c")), 0)
    assert len(content(database, "appended")) == 3

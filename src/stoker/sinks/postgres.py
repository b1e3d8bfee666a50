"""Write each batch into a PostgreSQL table, in one transaction.

Spark repeats a batch whose end it has not recorded, with the same rows and the same batch id. An
upsert may simply run twice. An append may not, so the transaction that appends the rows also
records the batch id: the rows of a recorded batch are skipped.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stoker.core.errors import InvalidInput
from stoker.sinks.files import WriteBatch

if TYPE_CHECKING:
    import psycopg

LEDGER = "stoker_batches"
"""Table with the last batch of each sink, in the connection's schema."""


def upsert_to_postgres(url: str, table: str, *, keys: Sequence[str]) -> WriteBatch:
    """Each row replaces the one with the same values in `keys`, which need a unique index.

    A repeated batch writes the same rows again and changes nothing. If a batch has several rows
    with one key, the last one counts.
    """
    if not keys:
        raise InvalidInput(
            f"an upsert into {table} needs keys; name the columns of its primary key"
        )

    def write(frame: Any, batch_id: int) -> None:
        with _transaction(url) as cursor:
            _stage(cursor, frame, table)
            _merge(cursor, frame.columns, table, keys)

    return write


def append_to_postgres(url: str, table: str, *, sink: str) -> WriteBatch:
    """Append rows; a ledger table in the database records the last batch of `sink`.

    `sink` belongs to one checkpoint: a query that starts over at batch 0 needs another name.
    """

    def write(frame: Any, batch_id: int) -> None:
        with _transaction(url) as cursor:
            if _claim_batch(cursor, sink, batch_id):
                _copy(cursor, frame, _name(table))

    return write


@contextmanager
def _transaction(url: str) -> Iterator["psycopg.Cursor[Any]"]:
    # psycopg is an optional dependency, which only the process that writes must have.
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        yield cursor


def _claim_batch(cursor: "psycopg.Cursor[Any]", sink: str, batch_id: int) -> bool:
    """True if the batch is still to be written. A concurrent attempt at it waits for this one."""
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {LEDGER} (sink text PRIMARY KEY, batch_id bigint NOT NULL)"
    )
    cursor.execute(
        f"INSERT INTO {LEDGER} VALUES (%s, %s) ON CONFLICT (sink) DO UPDATE "
        f"SET batch_id = excluded.batch_id WHERE {LEDGER}.batch_id < excluded.batch_id",
        (sink, batch_id),
    )
    return cursor.rowcount == 1


def _stage(cursor: "psycopg.Cursor[Any]", frame: Any, table: str) -> None:
    # Only the types of these columns: a column that the batch does not fill may be NOT NULL.
    statement = _sql(
        "CREATE TEMPORARY TABLE stoker_batch ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
    )
    cursor.execute(statement.format(_columns(frame.columns), _name(table)))
    cursor.execute("ALTER TABLE stoker_batch ADD COLUMN stoker_row bigserial")
    _copy(cursor, frame, _name("stoker_batch"))


def _copy(cursor: "psycopg.Cursor[Any]", frame: Any, target: Any) -> None:
    columns = _columns(frame.columns)
    with cursor.copy(_sql("COPY {} ({}) FROM STDIN").format(target, columns)) as copy:
        for row in frame.toLocalIterator():
            copy.write_row(tuple(row))


def _merge(
    cursor: "psycopg.Cursor[Any]", names: Sequence[str], table: str, keys: Sequence[str]
) -> None:
    others = [name for name in names if name not in keys]
    updates = _sql(", ").join(
        _sql("{0} = excluded.{0}").format(_identifier(name)) for name in others
    )
    action = _sql("UPDATE SET {}").format(updates) if others else _sql("NOTHING")
    statement = _sql(
        "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({keys}) {columns} "
        "FROM stoker_batch ORDER BY {keys}, stoker_row DESC ON CONFLICT ({keys}) DO {action}"
    )
    cursor.execute(
        statement.format(
            table=_name(table), columns=_columns(names), keys=_columns(keys), action=action
        )
    )


def _columns(names: Sequence[str]) -> Any:
    return _sql(", ").join(map(_identifier, names))


def _name(table: str) -> Any:
    return _sql(".").join(map(_identifier, table.split(".")))


def _identifier(name: str) -> Any:
    from psycopg import sql  # noqa: PLC0415

    return sql.Identifier(name)


def _sql(text: str) -> Any:
    from psycopg import sql  # noqa: PLC0415

    return sql.SQL(text)

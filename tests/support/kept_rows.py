"""Rows that something costly left in the database, to be put there again for later tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from django.db import connection, transaction

T = TypeVar("T")
Table: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]


class KeptRows:
    """The rows that one piece of work adds or changes; it takes none away."""

    def __init__(self) -> None:
        self._rows: dict[str, Table] = {}

    def watch(self, make: Callable[[], T]) -> T:
        """Do the work, and keep its rows."""
        before = _read()
        made = make()
        for table, (names, rows) in _read().items():
            assert len(rows) >= len(before[table][1]), f"rows of {table} were taken away"
            new = [row for row in rows if row not in before[table][1]]
            if new:
                self._rows[table] = (names, new)
        return made

    def put_back(self) -> None:
        """Have them in the database again; call it inside the test's transaction."""
        # Within a transaction foreign keys are checked at its end: the order does not matter.
        with transaction.atomic(), connection.cursor() as cursor:
            for table, (names, rows) in self._rows.items():
                # Django's cursor would read the percent signs of values.
                cursor.connection.cursor().executemany(_insertion(table, names), rows)


def _read() -> dict[str, Table]:
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.django_table_names(only_existing=True):
            raw = cursor.connection.cursor()
            raw.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found[table] = ([column[0] for column in raw.description], raw.fetchall())
    return found


def _insertion(table: str, names: list[str]) -> str:
    """Put a row there, in the place of one with the same key."""
    quote = connection.ops.quote_name
    columns = [quote(name) for name in names]
    sqlite = connection.vendor == "sqlite"
    places = ", ".join(["?" if sqlite else "%s"] * len(columns))
    said = f"INTO {quote(table)} ({', '.join(columns)}) VALUES ({places})"
    if sqlite:
        return f"INSERT OR REPLACE {said}"
    with connection.cursor() as cursor:
        key = connection.introspection.get_primary_key_column(cursor, table)
    fresh = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns)
    return f"INSERT {said} ON CONFLICT ({quote(key)}) DO UPDATE SET {fresh}"

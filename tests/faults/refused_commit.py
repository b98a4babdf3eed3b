"""A store that refuses one message late: when it is committed, after the next messages have arrived."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def refusing(store: Path, text: bytes) -> Iterator[None]:
    """Have each commit of a packet with this text fail, after a while.

    @param store: the file of a store in SQLite, whose server may run.
    """
    with closing(sqlite3.connect(store)) as database:
        database.execute(
            "CREATE VIEW slow AS WITH RECURSIVE counted(number) AS (SELECT 1 UNION ALL SELECT"
            " number + 1 FROM counted WHERE number < 500000) SELECT count(*) AS numbers FROM counted"
        )
        database.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON packet WHEN instr(NEW.content, x'{text.hex()}')"
            " BEGIN SELECT RAISE(ABORT, 'refused') FROM slow WHERE numbers > 0; END"
        )
        try:
            yield
        finally:
            database.execute("DROP TRIGGER refuse")
            database.execute("DROP VIEW slow")

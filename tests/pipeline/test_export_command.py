"""The command that exports stored messages, and every kind of store that it reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from msmq.pipeline.files.exporter import MOST_PROBLEMS, Exporter, export_request, store_at
from tests.builders import user_packet
from tests.pipeline import stores
from tests.pipeline.export_case import (
    DAMAGED,
    ExportTestCase,
    event,
    packet,
    put,
)
from tests.pipeline.stores import spoil_log
from tests.servers.postgresql import shared_server


class StoresTests(ExportTestCase):
    """Every store, and every stream of it."""

    wanted: Sequence[tuple[str, bool]] = (
        *((name, False) for name in ("orders", "Bills", "Bills;journal", "reports", "events")),
        *((f"system$;{name}", False) for name in ("deadletter", "deadxact", "journal")),
        *((stores.OUTGOING.path, False), ("orders", True)),
    )

    def exported(self, place: str) -> list[dict[str, Any]]:
        """All rows of all streams."""
        self.directory = Path(self.mktemp())
        with store_at(place) as store:
            requests = [export_request(store, name, log=is_log) for name, is_log in self.wanted]
            reported = list(Exporter(store, self.directory).run(requests))
        self.assertEqual(min(each.rows for each in reported), 1)
        self.assertEqual(sum(each.damaged for each in reported), 1)
        found: list[dict[str, Any]] = []
        for path in sorted(self.directory.rglob("*.parquet"), key=lambda path: path.name):
            found += pyarrow.parquet.read_table(path, partitioning=None).to_pylist()
        self.assertEqual(len(found), sum(each.rows for each in reported))
        return found

    def test_equal(self) -> None:
        """The record log, SQLite and PostgreSQL become the same rows."""
        server = shared_server()
        self.addCleanup(server.drop, "exported")
        data = stores.write_log(Path(self.mktemp()), stores.estate())
        url = stores.write_postgresql(server, "exported", stores.estate())
        sqlite = stores.write_sqlite(Path(self.mktemp()), stores.estate())
        found = self.exported(str(data))
        for other in (str(sqlite), url):
            self.assertEqual(found, self.exported(other))


class CommandTests(ExportTestCase):
    """C{msmq export}."""

    def test_export(self) -> None:
        """It reports what it wrote, as text and as JSON."""
        self.write([put(1), put(2, content=DAMAGED), event(1)])
        output = ("--output", str(self.directory), "--data", str(self.data))
        ended = self.msmq("export", "orders", "events", *output, "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(
            ended.objects,
            [
                {
                    **{
                        "topic": ".\\private$\\orders",
                        "stream": "queue",
                        "rows": 2,
                        "damaged": 1,
                        "files": 1,
                    },
                    **{"trimmed": None, "unreadable": 0},
                },
                {
                    **{"topic": "events", "stream": "events", "rows": 1, "damaged": 0, "files": 1},
                    **{"trimmed": None, "unreadable": 0},
                },
            ],
        )
        ended = self.msmq("export", "orders", *output)
        self.assertRegex(
            ended.output, r"(?m)^topic +stream +rows +damaged +files\n\.\\private\$\\orders +queue +0"
        )

    def test_damaged_in_the_store(self) -> None:
        """What is left out is named, up to a limit, and the status says that something is."""
        self.write([*map(put, range(1, 25))])
        for number in range(2, 24):
            spoil_log(self.data, packet(number))
        output = ("--output", str(self.directory), "--data", str(self.data))
        ended = self.msmq("export", "orders", *output, "--json")
        [reported] = ended.objects
        self.assertEqual((ended.status, reported["rows"], reported["unreadable"]), (1, 2, 22))
        *lines, last = ended.errors.splitlines()
        self.assertEqual((20, MOST_PROBLEMS), (len(lines), MOST_PROBLEMS))
        for line in lines:
            self.assertRegex(
                line,
                r"^msmq export: \.\\private\$\\orders: not exported: .* are damaged; run msmq store check$",
            )
        self.assertIn("2 more rows are damaged and not exported", last)

    def test_locations(self) -> None:
        """The store is found by --data, by the control socket or by --store; a remote one is not."""
        self.write([put(1)])
        for place in (
            ("--control", str(self.data / "control.sock")),
            ("--store", str(self.data)),
            ("--store", str(self.data / "msmq.log")),
        ):
            directory = self.mktemp()
            ended = self.msmq("export", "orders", "--output", directory, *place, "--json")
            self.assertEqual([reported["rows"] for reported in ended.objects], [1])
        self.assert_refused(
            ["export", "orders", "--output", self.mktemp(), "--control", "ssl:h:1"], 2, "--store"
        )

    def test_decode(self) -> None:
        """Bodies are read if that is asked for."""
        self.write([put(1, content=user_packet(b'{"a": 1}', recoverable=True))])
        ended = self.msmq(
            "export", "orders", "--output", str(self.directory), "--data", str(self.data), "--decode", "json"
        )
        self.assertEqual(ended.status, 0)
        [decoded] = self.rows("decoded")
        self.assertEqual(json.loads(decoded)["format"], "json")

    def test_refusals(self) -> None:
        """An error is one line."""
        output = ("--output", str(self.directory), "--data", str(self.data))
        self.assert_refused(["export", "none", *output], 2, "none")
        self.assert_refused(["export", "orders", *output, "--decode", "rot13"], 2, "--decode", "rot13")
        self.assert_refused(["export", *output], 2, "QUEUE")
        self.assert_refused(["export", "orders"], 2, "--output")
        self.assert_refused(
            ["export", "orders", "--output", "x", "--data", "/nonexistent"], 1, "MESSAGE_STORAGE_FAILED"
        )
        self.patch(sys, "path", [])
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
            self.patch_module(name)
        self.assert_refused(["export", "orders", *output], 2, "pyarrow", "msmq[parquet]")

    def patch_module(self, name: str) -> None:
        """Have it look as if a module were not installed."""
        module = sys.modules[name]
        self.addCleanup(sys.modules.__setitem__, name, module)
        sys.modules[name] = None  # type: ignore[assignment]

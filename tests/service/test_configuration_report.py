"""What operators see of the configuration of a running server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.messages.json_records import json_record
from msmq.control.server.server_configuration import ConfigurationEntry, ConfigurationReport
from msmq.service.configuration import Overrides, load
from msmq.service.keys import TABLES
from msmq.service.report.shown_values import shown_values
from msmq.service.server import Server
from msmq.testing.clock import ManualClock

SECRET = "correct-horse"
FILE = """[limits]
quota = 77

[hosts]
BETA = "127.0.0.2"
"""


def reported(server: Server) -> ConfigurationReport:
    """What a server says of its configuration now."""
    return server.report(server.examine())


class ReportTestCase(SynchronousTestCase):
    """A configuration file, and a server that was made from it."""

    def setUp(self) -> None:
        self.file = Path(self.mktemp())
        self.file.mkdir()
        self.file = self.file / "msmq.toml"

    def server(self, text: str, environment: Mapping[str, str] | None = None, **options: str) -> Server:
        """A server with this file; it is not started."""
        self.file.write_text(text)

        def read() -> Any:
            given = Overrides(**{"name": "ALPHA", "data": "data", **options})
            return load(self.file, given, environment or {})

        return Server(read(), ManualClock().reactor, source=read)

    def entry(self, server: Server, key: str) -> ConfigurationEntry:
        """One key of its report."""
        [found] = [each for each in reported(server).entries if each.key == key]
        return found

    def set_by(self, server: Server, key: str) -> tuple[str, str, int | None]:
        """Where a key is set."""
        found = self.entry(server, key)
        return found.origin, found.source, found.line


class OriginTests(ReportTestCase):
    """Where each value is set."""

    def test_origins(self) -> None:
        """A value has the file and line, the variable, or the option that wins; others are defaults."""
        drop_in = self.file.parent / "conf.d" / "limits.toml"
        drop_in.parent.mkdir()
        drop_in.write_text("[limits]\nevents = 9\n")
        server = self.server(
            f"{FILE}[storage]\nbackend = 'log'\n",
            {"MSMQ_TIMERS_LINGER": "7", "MSMQ_LIMITS_SEND_KEYS": "5"},
            storage="memory",
            address="127.0.0.9",
        )
        self.assertEqual(self.set_by(server, "limits.quota"), ("file", str(self.file), 2))
        self.assertEqual(self.set_by(server, "hosts.BETA"), ("file", str(self.file), 5))
        self.assertEqual(self.set_by(server, "limits.events"), ("file", str(drop_in), 2))
        self.assertEqual(self.set_by(server, "timers.linger"), ("environment", "MSMQ_TIMERS_LINGER", None))
        self.assertEqual(self.set_by(server, "storage.backend"), ("option", "--storage", None))
        self.assertEqual(self.set_by(server, "listen.ping"), ("option", "--address", None))
        self.assertEqual(self.set_by(server, "timers.connect"), ("default", "", None))
        self.assertEqual(reported(server).files, (str(self.file), str(drop_in)))

    def test_values_in_effect(self) -> None:
        """The value is the one that the server uses, also where an option or another key decides it."""
        server = self.server(
            "[queue_manager]\nrouting_server = true\n[listen]\nweb = 'off'\n", address="127.0.0.9"
        )
        self.assertEqual(self.entry(server, "listen.session").value, "tcp:1801:interface=127.0.0.9")
        self.assertEqual(self.entry(server, "listen.ping").value, "udp:3527:interface=127.0.0.9")
        self.assertEqual(self.entry(server, "timers.session_cleanup").value, 120.0)
        self.assertEqual(self.entry(server, "queue_manager.name").value, "ALPHA")
        self.assertTrue(Path(self.entry(server, "queue_manager.data").value).is_absolute())

    def test_defaults_hold(self) -> None:
        """A server uses the defaults of the reference where nothing is set."""
        configuration = load(None, Overrides(name="ALPHA", data="data"), {})
        values = shown_values(configuration)
        for table, keys in TABLES.items():
            for key, known in keys.items():
                if known.default is not None and (table, key) not in _COMPUTED:
                    default = json.loads(json.dumps(known.default))
                    self.assertEqual(values[f"{table}.{key}"], default, f"{table}.{key}")


_COMPUTED = {("queue_manager", "data"), ("listen", "control")}
"""Keys whose default is a path relative to another one."""


class SecretTests(ReportTestCase):
    """Nothing that may be a secret is shown."""

    def test_descriptions(self) -> None:
        """The argument of a URL is left out, in the value of now and in the next one; a path is shown."""
        before = f"postgresql://msmq:{SECRET}@db.example/msmq"
        server = self.server(f"[storage]\nbackend = '{before}'\n")
        self.file.write_text(f"[storage]\nbackend = 'postgresql://db.example/msmq?password={SECRET}'\n")
        self.assertNotIn(SECRET, json.dumps(json_record(reported(server))))
        entry = self.entry(server, "storage.backend")
        self.assertEqual((entry.value, entry.next), ("postgresql:(not shown)",) * 2)
        self.assertTrue(entry.differs)
        server = self.server("[directory]\nbackend = 'file:/etc/msmq/enterprise.toml'\n")
        self.assertEqual(self.entry(server, "directory.backend").value, "file:/etc/msmq/enterprise.toml")

    def test_a_mistake(self) -> None:
        """Nor is it in the text of a mistake."""
        server = self.server("")
        for table, value in (
            ("storage", f"postgresql://m:{SECRET}@db/x/y?nonsense=1"),
            ("storage", f"postgresql:{SECRET}"),
            ("storage", f"unknown:{SECRET}"),
            ("directory", f"unknown:{SECRET}"),
            ("routing", f"unknown:{SECRET}"),
        ):
            self.file.write_text(f"[{table}]\nbackend = '{value}'\n")
            report = reported(server)
            [problem] = report.reload.problems
            self.assertIn(f":2: {table}.backend: cannot be used", problem)
            self.assertNotIn(SECRET, json.dumps(json_record(report)))


class PreviewTests(ReportTestCase):
    """What a reload would do, which it does not do yet."""

    def test_preview(self) -> None:
        """Keys that a reload would apply, and those that need a restart, with the values of both."""
        server = self.server(FILE)
        before = server.configuration
        self.file.write_text("[limits]\nquota = 78\ncontrol_receives = 3\n")
        reload = reported(server).reload
        self.assertEqual(set(reload.changed), {"limits.quota", "hosts.BETA"})
        self.assertEqual((reload.restart, reload.problems), (("limits.control_receives",), ()))
        quota = self.entry(server, "limits.quota")
        self.assertEqual((quota.value, quota.next, quota.applied_by), (77, 78, "reload"))
        self.assertEqual(self.entry(server, "limits.control_receives").applied_by, "restart")
        self.assertEqual(self.entry(server, "hosts.BETA").next, None)
        self.assertEqual(server.configuration, before)

    def test_a_mistake(self) -> None:
        """A file that cannot be used is a problem with its line, and the values in effect are shown."""
        server = self.server(FILE)
        self.file.write_text("[limits]\nqouta = 78\n")
        report = reported(server)
        self.assertIn(":2: limits.qouta: is not a key", report.reload.problems[0])
        self.assertEqual(self.entry(server, "limits.quota").value, 77)

    def test_without_files(self) -> None:
        """A server without a source says that it cannot be reloaded."""
        server = Server(load(None, Overrides(name="ALPHA", data="data"), {}), ManualClock().reactor)
        self.assertIn("without a configuration file", reported(server).reload.problems[0])

    def test_every_key(self) -> None:
        """The report has each key of the reference once."""
        keys = [each.key for each in reported(self.server(FILE)).entries]
        known = [f"{table}.{key}" for table, keys in TABLES.items() for key in keys]
        self.assertEqual(sorted(keys), sorted([*known, "hosts.BETA"]))
        self.assertEqual(attrs.asdict(reported(self.server(FILE)).reload)["changed"], ())

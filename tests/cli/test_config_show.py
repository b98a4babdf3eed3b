"""C{msmq config show}: the configuration of a running server."""

from __future__ import annotations

from pathlib import Path

from msmq.control.server.server_configuration import ServerConfiguration
from msmq.service.configuration import ConfigurationSource, Overrides
from msmq.service.server import Server
from tests.cli.served import ServedCommandTestCase
from tests.immediate_threads import ImmediateThreads


class ConfigShowTests(ServedCommandTestCase):
    """A server with a file."""

    def server_configuration(self) -> ServerConfiguration:
        """Its file."""
        self.file = Path(self.mktemp())
        self.file.write_text("[limits]\nquota = '77 KiB'\n")
        source = ConfigurationSource(self.file, Overrides(name="ALPHA", data="data"))
        return Server(source.load(), ImmediateThreads(), source=source.load)

    def keys(self, *arguments: str) -> dict[str, object]:
        """The keys that are printed, with their values."""
        shown = self.msmq("config", "show", *arguments, "--json").objects
        return {each["key"]: each["value"] for each in shown}

    def test_keys(self) -> None:
        """Only keys that are set are shown, or all, or those of a table, or the named ones."""
        self.assertEqual(set(self.keys()), {"queue_manager.name", "queue_manager.data", "limits.quota"})
        self.assertGreater(len(self.keys("--all")), 90)
        self.assertEqual(
            set(self.keys("web")), {"web.windows_exporter_names", "web.member_token_file", "web.anonymous"}
        )
        found = self.keys("limits.quota", "limits.events")
        self.assertEqual(found, {"limits.quota": 77, "limits.events": 100_000})
        self.assertIn(str(self.file), self.msmq("config", "show", "limits.quota").output)

    def test_differences(self) -> None:
        """A value that the file has now stands next to the one in effect."""
        self.file.write_text("[limits]\nquota = 78\n")
        [shown] = self.msmq("config", "show", "limits.quota", "--json").objects
        self.assertEqual([shown[key] for key in ("value", "unit", "differs", "next")], [77, "KiB", True, 78])

    def test_mistakes(self) -> None:
        """An unknown key is a wrong call; a mistake in the file is reported, with the values in effect."""
        wrong = self.msmq("config", "show", "limits.qouta")
        self.assertEqual(wrong.status, 2)
        self.assertIn("there is no key 'limits.qouta'", wrong.errors)
        self.file.write_text("[limits]\nqouta = 78\n")
        shown = self.msmq("config", "show", "limits.quota", "--json")
        self.assertEqual(shown.objects[0]["value"], 77)
        self.assertIn("a reload would be refused", shown.errors)
        self.assertIn(":2: limits.qouta", shown.errors)

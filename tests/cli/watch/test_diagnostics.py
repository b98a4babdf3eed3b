"""C{msmq diagnostics}: the archive for a support case."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path
from typing import Any

from msmq.control.server.server_configuration import ServerConfiguration
from msmq.service.configuration import ConfigurationSource, Overrides
from msmq.service.server import Server
from tests.cli.served import ServedCommandTestCase
from tests.cli.support import CommandTestCase
from tests.immediate_threads import ImmediateThreads

_SECRET = "planted-Secret-0123456789abcdef0123456789"


def _contents(path: Path) -> dict[str, Any]:
    """The parts of an archive by their names."""
    found: dict[str, Any] = {}
    with tarfile.open(path) as archive:
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            found[Path(entry.name).stem] = json.load(file)
    return found


class DiagnosticsTests(ServedCommandTestCase):
    """With a running server."""

    def server_configuration(self) -> ServerConfiguration:
        """A file with a password."""
        self.directory = Path(self.mktemp()).absolute()
        data = self.directory / "data"
        (data / "keys").mkdir(parents=True)
        (data / "keys" / "private.pem").write_text(_SECRET)
        file = self.directory / "msmq.toml"
        file.write_text(
            f'[listen]\ncontrol = "off"\n[directory]\nbackend = "ldap://admin:{_SECRET}@ldap.example.com"\n'
        )
        tokens = self.directory / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"ops admin {_SECRET}\n")
        file.write_text(f'{file.read_text()}[security]\ncontrol_token_file = "{tokens}"\n')
        source = ConfigurationSource(file, Overrides(name="ALPHA", data=str(data)))
        return Server(source.load(), ImmediateThreads(), source=source.load)

    def collect(self, *arguments: str) -> tuple[Path, Any]:
        """The archive of one run."""
        file = self.directory / "bundle.tar.gz"
        data = str(self.directory / "data")
        return file, self.msmq("diagnostics", str(file), "--data", data, *arguments)

    def test_parts_without_secrets(self) -> None:
        """It has the state of the server, and none of the secrets of files, messages and queues."""
        queue = ".\\private$\\support"
        self.assertEqual(self.msmq("queue", "create", queue, "--label", _SECRET).status, 0)
        self.put(_SECRET.encode(), queue=queue, label=_SECRET)
        file, ended = self.collect("--config", str(self.directory / "msmq.toml"))
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        found = _contents(file)
        self.assertEqual(found["manifest"]["left_out"], {})
        self.assertEqual(found["status"]["name"], "ALPHA")
        self.assertIn(
            "private$\\support", str([each["path"] for each in found["queues"]]).replace("\\\\", "\\")
        )
        self.assertIn("keys/private.pem", [each["path"] for each in found["files"]["files"]])
        self.assertEqual(
            [(each["sequence"], each["event"], each["queue"]) for each in found["events"]],
            [(1, "administered", queue)],
            "its reason has the label",
        )
        self.assertTrue(found["configuration"])
        self.assertTrue(found["configuration_file"])
        self.assertTrue(found["versions"]["packages"]["Twisted"])
        self.assertNotIn(_SECRET, json.dumps(found))

    def test_an_existing_file(self) -> None:
        """A file that exists stays as it is, unless it may be replaced; nothing else is left."""
        (self.directory / "bundle.tar.gz").write_text("mine")
        file, ended = self.collect()
        self.assertEqual((ended.status, file.read_text()), (1, "mine"))
        self.assertIn("--force", ended.errors)
        file, ended = self.collect("--force")
        self.assertEqual(ended.status, 0, ended.errors)
        self.assertIn("status", _contents(file))
        names = {each.name for each in self.directory.iterdir()}
        self.assertEqual(names, {"bundle.tar.gz", "data", "msmq.toml", "tokens"})


class OfflineDiagnosticsTests(CommandTestCase):
    """Without a server."""

    def test_a_stopped_server(self) -> None:
        """The parts that need no server are written, and the others are named with their reason."""
        data = Path(self.mktemp()).absolute()
        data.mkdir()
        (data / "store").write_bytes(bytes(7))
        file = data.with_suffix(".tar.gz")
        ended = self.msmq("diagnostics", str(file), "--data", str(data))
        self.assertEqual(ended.status, 0, ended.errors)
        self.assertIn("status is left out: ", ended.errors)
        found = _contents(file)
        self.assertEqual(set(found), {"manifest", "versions", "files"})
        self.assertEqual([(each["path"], each["bytes"]) for each in found["files"]["files"]], [("store", 7)])
        self.assertIn("queues", found["manifest"]["left_out"])
        self.assertNotIn("nothing of the server", ended.errors)

    def test_nothing_of_a_server(self) -> None:
        """An archive without any part of the server is written, and the last line says what to do."""
        file = Path(self.mktemp()).absolute().with_suffix(".tar.gz")
        ended = self.msmq("diagnostics", str(file), "--data", "/nonexistent/data")
        self.assertEqual(ended.status, 0, ended.errors)
        self.assertEqual(set(_contents(file)), {"manifest", "versions"})
        self.assertIn(
            f"{file} has nothing of the server; run the command as its user", ended.errors.splitlines()[-1]
        )

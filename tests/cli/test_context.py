"""C{msmq context add}: what is wrong with a server is found when it is added."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

from msmq.cli.options import Settings
from tests.cli.support import CommandTestCase

TOKEN = "operator 0123456789abcdef0123456789abcdef\n"


class AddTests(CommandTestCase):
    """A directory with a data directory, a token and a certificate."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        (self.home / "data").mkdir(parents=True)
        self.patch(os, "environ", {**os.environ, "XDG_CONFIG_HOME": os.fspath(self.home / "config")})
        self.token = self.home / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)
        self.ca = self.home / "ca.pem"
        self.ca.write_text("no certificate\n")

    def assert_wrong(self, *arguments: object, words: tuple[str, ...]) -> None:
        """It is refused in one line with these words, and no context is stored."""
        texts = [os.fspath(each) if isinstance(each, Path) else str(each) for each in arguments]
        self.assert_refused(["context", "add", *texts], 2, "msmq", *words)
        self.assertFalse((self.home / "config").exists())

    def test_wrong_files(self) -> None:
        """A token file that is missing, readable by all or without a token; certificates that are missing."""
        remote = "ssl:mq.example.com:15802"
        missing = self.home / "missing"
        open_token, empty = self.home / "open", self.home / "empty"
        open_token.write_text(TOKEN)
        open_token.chmod(0o644)
        empty.write_text("")
        empty.chmod(0o600)
        for file, words in (
            (missing, (f"token file {missing}", "No such file")),
            (self.home, (f"token file {self.home}", "directory")),
            (open_token, (f"token file {open_token}", "chmod 600")),
            (empty, (f"token file {empty}", "no token")),
        ):
            with self.subTest(file=file):
                self.assert_wrong("beta", remote, "--with-token-file", file, words=words)
        for certificates, words in (
            (missing, (f"caFile {missing}", "No such file")),
            (self.ca, (f"caFile {self.ca}", "holds no certificates")),
        ):
            with self.subTest(certificates=certificates):
                location = f"{remote}:caFile={certificates}"
                self.assert_wrong("beta", location, "--with-token-file", self.token, words=words)

    def test_wrong_endpoints(self) -> None:
        """URLs, missing and other files, wrong ports and fingerprints, and an empty name."""
        for arguments, words in (
            (("beta", "https://mq.example.com:15802"), ("https://mq.example.com:15802", "ssl:HOST:PORT")),
            (("beta", self.home / "missing"), (os.fspath(self.home / "missing"), "does not exist")),
            (("beta", f"unix:{self.home}/no/control.sock"), ("no/control.sock", "does not exist")),
            (("beta", self.token), (os.fspath(self.token), "not a control socket")),
            (("beta", "ssl:mq.example.com"), ("ssl:mq.example.com", "ssl:HOST:PORT")),
            (("beta", "ssl:mq.example.com:0", "--with-token-file", self.token), ("port",)),
            (("beta", "ssl:mq.example.com:1"), ("token",)),
            (("beta", "ssl:mq.example.com:1:pins=12", "--with-token-file", self.token), ("pins",)),
            (("beta", "unix:"), ("'unix:'", "no path")),
            (("", self.home / "data"), ("NAME",)),
        ):
            with self.subTest(arguments=arguments):
                self.assert_wrong(*arguments, words=words)

    def test_damaged_file(self) -> None:
        """A file that is JSON of something else is named, whatever it holds."""
        file = self.home / "config" / "msmq" / "contexts.json"
        file.parent.mkdir(parents=True)
        for text in ('{"contexts": {}, "current": ["x"]}', "[" * 100_000, "[]", '{"contexts": 5}'):
            file.write_text(text)
            self.assert_refused(["context", "list"], 2, f"{file} is damaged")

    def test_two_commands(self) -> None:
        """A command waits for another one, whose contexts it keeps."""
        directory = self.home / "config" / "msmq"
        replace = os.replace
        waited: list[bool] = []

        def replace_while_locked(old: str, new: str) -> None:
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited.append(True)
            os.close(descriptor)
            replace(old, new)

        self.patch(os, "replace", replace_while_locked)
        for arguments in (("add", "alpha", str(self.home / "data")), ("use", "alpha"), ("remove", "alpha")):
            self.assertEqual(self.msmq("context", *arguments).status, 0)
        self.assertEqual(waited, [True] * 3)

    def test_full_disk(self) -> None:
        """What could not be written leaves no file."""

        def fail(old: str, new: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.patch(os, "replace", fail)
        self.assert_refused(
            ["context", "add", "alpha", str(self.home / "data")], 2, "contexts.json: No space left on device"
        )
        self.assertEqual(list((self.home / "config" / "msmq").iterdir()), [])

    def test_added(self) -> None:
        """A data directory needs no running server; files are stored with their whole paths."""
        data = os.fspath(self.home / "data")
        for place in (f"unix:{os.path.relpath(data)}", data):
            [added] = self.msmq("context", "add", "alpha", place, "--json").objects
            self.assertEqual(added["place"], f"unix:{data}/control.sock")
        relative = os.path.relpath(self.token)
        for arguments in (
            ("ssl:mq.example.com:15802", "--with-token-file", relative),
            (f"ssl:mq.example.com:15802:tokenFile={relative}",),
        ):
            ended = self.msmq("context", "add", "beta", *arguments)
            self.assertEqual((ended.status, ended.errors), (0, ""))
            kept = json.loads((self.home / "config" / "msmq" / "contexts.json").read_text())["contexts"]
            self.assertEqual(kept["alpha"]["place"], f"unix:{data}/control.sock")
            self.assertIn(os.fspath(self.token), kept["beta"]["place"] + str(kept["beta"]["token_file"]))

    def test_other_servers(self) -> None:
        """A server that an option such as C{--ask} names has its data directory with C{unix:} or without."""
        data = os.fspath(self.home / "data")
        for place in (data, f"unix:{data}", f"{data}/control.sock", f"unix:{data}/control.sock"):
            self.assertEqual(str(Settings().client_of(place).where), f"{data}/control.sock")

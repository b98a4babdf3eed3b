"""C{msmq enterprise join} and its sisters, as far as they need no directory."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import CommandTestCase
from tests.directory.test_enterprise_file import WHOLE

UNREACHABLE = "ldap://127.0.0.1:1/dc=example,dc=com"


class EnrollingTests(CommandTestCase):
    """Mistakes of the operator: one line with the problem, the value, and the remedy."""

    def written(self, text: str) -> str:
        path: str = self.mktemp()
        Path(path).write_text(text)
        return path

    def refused(self, status: int, *arguments: str) -> str:
        ended = self.msmq("enterprise", *arguments)
        self.assertEqual((ended.status, ended.output), (status, ""), ended.errors)
        self.assertEqual(ended.errors.count("\n"), 1, ended.errors)
        return ended.errors

    def test_usage(self) -> None:
        """A command without a directory, a name or a site says which option names it."""
        estate = self.written(WHOLE)
        for said, arguments in (
            ("give the --config of a member, or a --directory", ("join", "ALPHA")),
            ("name the computer", ("join", "--directory", UNREACHABLE)),
            ("name the sites, or give --none", ("site", "ALPHA", "--directory", UNREACHABLE)),
            ("--routing", ("role", "ALPHA", "--directory", UNREACHABLE)),
            ("does not speak LDAP", ("leave", "ALPHA", "--directory", f"file:{estate}")),
            ("the password of --bind-dn", ("leave", "A", "--directory", UNREACHABLE, "--password-file", "x")),
            ("name the server", ("leave", "ALPHA", "--directory", "ldap:///dc=example,dc=com")),
            ("is not a distinguished name", ("leave", "ALPHA", "--directory", "ldap://127.0.0.1/example")),
            ("--cost", ("link", "A", "B", "--cost", "0", "--directory", UNREACHABLE)),
        ):
            self.assertIn(said, self.refused(2, *arguments))

    def test_password_in_clear(self) -> None:
        """A password never goes over a network without TLS."""
        secret = self.written("secret")
        credentials = ("--bind-dn", "cn=admin", "--password-file", secret)
        said = self.refused(2, "leave", "ALPHA", "--directory", "ldap://192.0.2.1/dc=x", *credentials)
        self.assertIn("use ldaps: or start_tls = true", said)

    def test_configuration(self) -> None:
        """The configuration of a server says which computer joins, and another name is a mistake."""
        config = self.written(f'[queue_manager]\nname = "ALPHA"\n[directory]\nbackend = "{UNREACHABLE}"\n')
        self.assertIn("BETA is not ALPHA", self.refused(2, "join", "BETA", "--config", config))
        faulty = self.written("[queue_manager]\nnam = 1\nsite = 2\n")
        said = self.refused(2, "join", "--config", faulty)
        self.assertIn(f"{faulty}:2: queue_manager.nam", said)
        self.assertIn("and 1 more", said)
        self.assertIn("/nowhere", self.refused(2, "join", "--config", "/nowhere/alpha.toml"))

"""The page of the configuration."""

from __future__ import annotations

from pathlib import Path

from msmq.control.authentication.roles import Role
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.service.configuration import ConfigurationSource, Overrides
from msmq.service.server import Server
from tests.control.callers.test_roles import TOKENS
from tests.immediate_threads import ImmediateThreads
from tests.web.console.test_changes import ChangeTestCase
from tests.web.console.test_pages import HOSTILE


class ConfigurationPageTests(ChangeTestCase):
    """A server with a file."""

    def server_configuration(self) -> ServerConfiguration:
        """Its file."""
        self.file = Path(self.mktemp())
        self.file.write_text("[limits]\nquota = 77\n")
        source = ConfigurationSource(self.file, Overrides(name="ALPHA", data="data"))
        return Server(source.load(), ImmediateThreads(), source=source.load)

    def test_values(self) -> None:
        """The keys that are set have their file and line; all keys are a link away."""
        page = self.shown("/configuration", Role.OPERATOR)
        self.assertIn("77", page.text)
        self.assertIn(f"{self.file}:2", page.text)
        self.assertIn("--name", page.text)
        self.assertIn("The files have the values that are in effect.", page.text)
        self.assertNotIn("session_retry_maximum", page.text)
        every_key = self.shown("/configuration?all=true").text
        self.assertIn("session_retry_maximum", every_key)
        self.assertIn("2592000", every_key)

    def test_preview_and_reload(self) -> None:
        """The page says what a reload would change, and an administrator reloads exactly that."""
        self.file.write_text("[limits]\nquota = 78\n")
        page = self.shown("/configuration")
        self.assertIn("A reload applies these values.", page.text)
        [shown] = [value for value in page.values("value") if len(value) == 16]
        self.file.write_text("[limits]\nquota = 79\n")
        self.refused("/configuration/reload", 400, "have changed since the page", ("shown", shown))

    def test_roles(self) -> None:
        """A reader neither sees the page nor a link to it; an operator has no button."""
        self.assertNotIn("/configuration", self.shown("/", Role.READER).values("href"))
        answer = self.get("/configuration", headers=self.headers(Role.READER))
        self.assertEqual(answer.status, 403)
        self.assertNotIn(
            "/configuration/reload", self.shown("/configuration", Role.OPERATOR).values("action")
        )
        self.assertIn("/configuration/reload", self.shown("/configuration").values("action"))

    def test_mistakes(self) -> None:
        """A mistake is shown as text, with its line, and there is nothing to reload."""
        self.file.write_text(f"[limits]\n'{HOSTILE.replace(chr(39), '').replace(chr(0x202E), '')}' = 1\n")
        page = self.shown("/configuration")
        self.assertIn(f"{self.file}:2", page.text)
        self.assertNotIn("img", page.tags)
        self.assertNotIn("/configuration/reload", page.values("action"))
        self.assertNotIn(next(iter(TOKENS.values())), page.text)

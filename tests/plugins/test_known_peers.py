"""C{examples/known_peers}: a session policy of a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import twisted.plugins
from msmq import UserMessageView
from msmq.interfaces import ISessionPolicy, SessionPeer
from msmq.plugins import PluginError
from msmq.service.configuration import check
from msmq.service.policy_plugins import make_session_policy
from tests.builders import ALPHA, GAMMA, user_packet
from tests.project.example_files import EXAMPLES, example


class KnownPeersTests(SynchronousTestCase):
    """The policy, found by its name."""

    def setUp(self) -> None:
        directory = EXAMPLES / "known_peers"
        example("known_peers", directory)
        plugins = directory / "twisted" / "plugins"
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(plugins)])
        # Twisted leaves a cache beside the plugins that it finds.
        self.addCleanup((plugins / "dropin.cache").unlink, missing_ok=True)
        self.file = Path(self.mktemp())

    def policy(self, content: str) -> Any:
        self.file.write_text(content)
        context: Any = None
        return make_session_policy(f"known-peers:{self.file}", context)

    def peer(self, identifier: object) -> Any:
        return SessionPeer("127.0.0.9", identifier, False, False)  # type: ignore[arg-type]

    def test_peers_and_labels(self) -> None:
        """The peers of the file may open sessions, and its labels are refused."""
        policy: ISessionPolicy = self.policy(f'peers = ["{ALPHA}"]\nforbidden_labels = ["drop table"]\n')
        self.assertEqual(policy.session_refusal(self.peer(ALPHA)), "")
        self.assertIn("is not one of the known peers", policy.session_refusal(self.peer(GAMMA)))
        for label, reason in (("order", ""), ("drop table", "its label is forbidden")):
            message = UserMessageView(user_packet(label=label))
            self.assertEqual(policy.message_refusal(self.peer(ALPHA), message), reason)

    def test_files_that_cannot_be_used(self) -> None:
        """A file without peers, or with something else in it, is reported with its name."""
        for content, words in (
            ("", "lacks the line peers = [...]"),
            ("peers = 5", "cannot be used"),
            ('peers = ["BETA"]', "cannot be used: badly formed hexadecimal UUID string"),
            ("peers = [", "cannot be used"),
        ):
            error = self.assertRaises(PluginError, self.policy, content)
            self.assertIn(f"{self.file} {words}", str(error))

    def test_check_of_a_configuration(self) -> None:
        """C{msmq config check} reports a file that a start could not use, with the line that names it."""
        configuration = Path(self.mktemp())
        configuration.write_text(
            f"[listen]\ncontrol = 'off'\n[security]\nsession_policy = 'known-peers:{self.file}'\n"
        )
        [problem] = check(configuration)
        self.assertEqual((problem.line, problem.key), (4, "security.session_policy"))
        self.assertIn(f"{self.file} cannot be used", problem.problem)
        self.file.write_text(f'peers = ["{ALPHA}"]\n')
        self.assertEqual(check(configuration), [])

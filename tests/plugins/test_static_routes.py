"""C{examples/static_routes}: a router of a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import twisted.plugins
from msmq.interfaces import NoRoute
from msmq.plugins import PluginError
from msmq.service.configuration import check
from msmq.service.policy_plugins import make_router
from tests.builders import ALPHA, BETA, GAMMA
from tests.project.example_files import EXAMPLES, example

TABLE = f"""
default = ["GATE"]
[queue_manager.GATE]
id = "{GAMMA}"
address = "192.0.2.1"
[queue_manager.BETA]
id = "{BETA}"
via = ["GATE", "BETA"]
"""


class StaticRoutesTests(SynchronousTestCase):
    """The router, found by its name."""

    def setUp(self) -> None:
        directory = EXAMPLES / "static_routes"
        example("static_routes", directory)
        plugins = directory / "twisted" / "plugins"
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(plugins)])
        # Twisted leaves a cache beside the plugins that it finds.
        self.addCleanup((plugins / "dropin.cache").unlink, missing_ok=True)
        self.file = Path(self.mktemp())

    def router(self, content: str = TABLE) -> Any:
        self.file.write_text(content)
        context: Any = None
        return make_router(f"static:{self.file}", context)

    def test_next_hops(self) -> None:
        """The line of a destination decides, then the default; what is unreachable comes last."""
        router = self.router()
        for destination, unreachable, wanted in (
            (BETA, frozenset(), ["GATE", "BETA"]),
            (BETA, frozenset({GAMMA}), ["BETA", "GATE"]),
            (GAMMA, frozenset(), ["GATE"]),
            (ALPHA, frozenset(), ["GATE"]),
        ):
            hops = self.successResultOf(router.next_hops(ALPHA, destination, unreachable))
            self.assertEqual([str(hop) for hop in hops], wanted)

    def test_no_route(self) -> None:
        """Without a line and a default there is no route, and the reason says so; nor is there one back."""
        router = self.router(TABLE.replace('default = ["GATE"]', ""))
        error = self.failureResultOf(router.next_hops(ALPHA, ALPHA), NoRoute).value
        self.assertIn("no line for", str(error))
        self.assertEqual(error.reason, f"no line for {ALPHA}, and no default")
        self.failureResultOf(self.router().next_hops(GAMMA, GAMMA), NoRoute)

    def test_explained_route(self) -> None:
        """C{msmq route} shows the first step with its reason."""
        route = self.successResultOf(self.router().route(ALPHA, BETA))
        self.assertEqual(
            [(hop.name, hop.reason) for hop in route.hops], [("GATE", "the line of the destination")]
        )
        self.assertTrue(route.arrives)

    def test_files_that_cannot_be_used(self) -> None:
        """A table with a mistake is reported with its file."""
        for content, words in (
            ("", "lacks the key queue_manager"),
            ("[queue_manager.A]", "lacks the key id"),
            ('[queue_manager.A]\nid = "A"', "cannot be used: badly formed"),
            (f'default = ["B"]\n[queue_manager.A]\nid = "{ALPHA}"', "has no [queue_manager.B]"),
        ):
            error = self.assertRaises(PluginError, self.router, content)
            self.assertIn(f"{self.file} {words}", str(error))

    def test_check_of_a_configuration(self) -> None:
        """C{msmq config check} reports a table that a start could not use, with the line that names it."""
        configuration = Path(self.mktemp())
        configuration.write_text(f"[listen]\ncontrol = 'off'\n[routing]\nbackend = 'static:{self.file}'\n")
        [problem] = check(configuration)
        self.assertEqual((problem.line, problem.key), (4, "routing.backend"))
        self.assertIn(f"{self.file} cannot be used", problem.problem)
        self.file.write_text(TABLE)
        self.assertEqual(check(configuration), [])

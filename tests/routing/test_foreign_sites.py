"""Foreign sites: which queue managers are served by a connector, and acknowledged for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.foreign_sites import is_answered_for, served_site
from msmq.routing.topology import Topology
from tests.routing.builders import Estate, guid


class ForeignSiteTests(SynchronousTestCase):
    """A, which is not foreign, and F, which is; the connector is in both."""

    def setUp(self) -> None:
        estate = Estate(sites="A")
        estate.add_site(guid("F"), "F", is_foreign=True)
        estate.machine("connector", "A F", routing_server=True)
        estate.machine("client", "A F")
        estate.machine("island", "F", routing_server=True)
        estate.machine("homeless", "")
        estate.machine("ours", "A")
        estate.machine("mainframe", "F")
        self.topology = estate.topology

    def test_answered_for(self) -> None:
        """Another acknowledges for a foreign queue manager, and for one that is not listed."""
        for machine, expected in (
            ("mainframe", True),
            ("client", True),
            ("ours", False),
            ("unlisted", True),
        ):
            with self.subTest(machine=machine):
                self.assertIs(is_answered_for(self.topology, guid(machine)), expected)

    def test_unknown_site(self) -> None:
        """A site that is not described may be a foreign one."""
        without_sites = Topology((), (), self.topology.queue_managers)
        self.assertIs(is_answered_for(without_sites, guid("ours")), True)

    def test_served(self) -> None:
        """Only a routing server in the foreign site serves it, and not for itself."""
        for own, destination, expected in (
            ("connector", "mainframe", guid("F")),
            ("connector", "ours", None),
            ("connector", "client", None),
            ("connector", "connector", None),
            ("connector", "unlisted", None),
            ("connector", "homeless", None),
            ("island", "mainframe", guid("F")),
            ("island", "island", None),
            ("client", "mainframe", None),
            ("ours", "mainframe", None),
            ("unlisted", "mainframe", None),
        ):
            with self.subTest(own=own, destination=destination):
                self.assertEqual(served_site(self.topology, guid(own), guid(destination)), expected)

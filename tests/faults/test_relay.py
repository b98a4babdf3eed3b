"""Transfer by a relay between three real servers with a store of each kind, all killed and cut off.

C{MSMQ_CHAOS} and C{MSMQ_CHAOS_SEED} are as of L{tests.faults.test_chaos}.
"""

from __future__ import annotations

import attrs

from tests.faults.test_chaos import SIZE, ChaosTestCase, plan
from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server

MESSAGES = 24
"""Fewer than of a pair: each is stored three times."""
SCHEMA = "chaos_relay"


class RelayTests(ChaosTestCase):
    """ALPHA on SQLite and BETA on the record log, with a relay on PostgreSQL between them."""

    def test_transfer(self) -> None:
        """Exactly once and in order from end to end, whichever of the three loses what it had in memory."""
        server = shared_server()
        server.drop(SCHEMA)
        self.addCleanup(server.drop, SCHEMA)
        usual = plan(self.directory)
        storages = ("sqlite", server.url(f"schema={SCHEMA}"), "log")
        relayed = attrs.evolve(usual, storages=storages)
        if not SIZE:
            relayed = attrs.evolve(relayed, messages=MESSAGES, kills=2, disturbances=2, machine_faults=())
        addresses = own_address(11), own_address(12), own_address(13)
        self.run_through(relayed, addresses)

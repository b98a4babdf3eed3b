"""Faults of the active server of a pair: a few in the suite, 200 with C{make standby-kills}."""

from __future__ import annotations

import os
import statistics

from twisted.trial.unittest import SynchronousTestCase

from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server
from tests.standby.campaign import Campaign
from tests.standby.pair import Pair

FAULTS = int(os.environ.get("MSMQ_STANDBY_KILLS", "5"))
SEED = int(os.environ.get("MSMQ_STANDBY_SEED", "1"))
LEASE = float(os.environ.get("MSMQ_STANDBY_LEASE", "3"))


class CampaignTests(SynchronousTestCase):
    """What a sender has when the active server of a pair fails again and again."""

    def test_nothing_is_lost_or_doubled(self) -> None:
        """Every accepted message is in the queue once and in order, whatever happened to the active server.

        It was killed, it stood still and came back, its connection to the database was cut.
        """
        pair = Pair(shared_server(), "campaign", (own_address(120), own_address(121)), lease=LEASE)
        self.addCleanup(pair.close)
        pair.start()
        campaign = Campaign(pair)
        found = campaign.run(FAULTS, SEED)
        self.assertGreater(len(found), 3 * FAULTS)
        self.assertEqual(sum(map(len, campaign.seconds.values())) + campaign.kept, FAULTS)
        if FAULTS > 5:
            print(f"{len(found)} messages accepted, 0 lost, 0 doubled; connection kept {campaign.kept}")
            for fault, seconds in sorted(campaign.seconds.items()):
                longest, median = max(seconds), statistics.median(seconds)
                print(f"{fault}: {len(seconds)} takeovers, median {median:.2f} s, longest {longest:.2f} s")

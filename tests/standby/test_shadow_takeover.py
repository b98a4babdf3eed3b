"""Shadows of a queue manager with a standby."""

from __future__ import annotations

import signal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.control.client.locations import parse_location
from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server
from tests.standby.pair import Node, Pair

QUEUE = ".\\private$\\orders"
COPIES = ".\\private$\\copies"


def control(node: Node) -> ControlClient:
    """A client of a server."""
    return ControlClient(parse_location(f"unix:{node.data / 'control.sock'}"))


class StandbyShadowTests(SynchronousTestCase):
    """Two servers of ALPHA, whose shadow copies orders to another queue."""

    def setUp(self) -> None:
        address = own_address(122)
        shadow = ("[[shadow]]", f"queue = '{QUEUE}'", f"to = '{COPIES}'")
        self.pair = Pair(shared_server(), "standby_shadow", (address, address), lease=60, options=shadow)
        self.addCleanup(self.pair.close)

    def shadow(self, node: Node) -> dict[str, Any]:
        """The shadow as an active server shows it."""
        return control(node).shadow(QUEUE)

    def test_goes_on_after_a_takeover(self) -> None:
        """Messages that the active server has not copied when it is killed are copied by its successor, and
        those that it has copied are not copied again.
        """
        pair = self.pair
        pair.start()
        first, second = pair.active, pair.standby
        first.client.create_queue(QUEUE, log=True)
        first.client.create_queue(COPIES)
        # It has waited for the queue since the start.
        first.until(lambda: self.shadow(first)["condition"] == "running", "the shadow does not begin")
        first.client.send(QUEUE, "1")
        first.until(lambda: self.shadow(first)["copied"] == 1, "nothing is copied")
        control(first).set_queue(COPIES, {"quota": 0})
        first.client.send(QUEUE, "2")
        first.signal(signal.SIGKILL)
        pair.taken_over()
        control(second).set_queue(COPIES, {"quota": None})
        second.client.send(QUEUE, "3")
        second.until(lambda: self.shadow(second)["behind"] == 0, "the shadow does not go on")
        second.until(lambda: len(second.client.peek(COPIES, count=9)) >= 3, "the shadow does not go on")
        self.assertEqual(
            [message.body for message in second.client.peek(COPIES, count=9)], [b"1", b"2", b"3"]
        )

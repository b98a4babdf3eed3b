"""Limits on what a queue manager keeps about its outgoing queues."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.holds import NAME, NEXT_HOP, Holds
from msmq.queues.outgoing import ConnectionHistoryEntry
from msmq.queues.redirects import Redirects
from msmq.structures.management import ConnectionStatus
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.status import MQError, Status
from tests.queues.builders import NOW, model

NAME_TEXT = "DIRECT=OS:BETA\\private$\\q"
FULL = Status.MQ_ERROR_INSUFFICIENT_RESOURCES


class OutgoingLimitTests(SynchronousTestCase):
    """The last one that fits is accepted, the next one is refused with the limit."""

    def test_holds(self) -> None:
        """100,000 names and next hops can be paused, together; more of them only if some resume."""
        state = {f"{NEXT_HOP}{number}": b"1" for number in range(99_998)}
        holds = Holds(is_clone=False)
        holds.load({**state, f"{NAME}{NAME_TEXT}": b"1"})
        held, other = parse_format_name(NAME_TEXT), parse_format_name(f"{NAME_TEXT}2")
        holds.change_name(other, True)
        holds.change_host("beta", True)
        holds.set_host("beta", True)
        for change, what in ((holds.change_name, other), (holds.change_host, "gamma")):
            error = self.assertRaises(MQError, change, what, True)
            self.assertEqual(error.status, FULL)
            self.assertIn("100000 names and next hops", str(error))
        # What is paused may be paused again, and anything may resume.
        holds.change_name(held, True)
        holds.change_host("beta", True)
        holds.change_name(other, False)
        holds.set_host("1", False)
        holds.change_host("gamma", True)

    def test_redirects(self) -> None:
        """10,000 names can be redirected."""
        redirects = Redirects()
        names = [PrivateFormatName(UUID(int=number), 16) for number in range(10_001)]
        for name in names[:-1]:
            redirects.change(name, "127.0.0.9")
            redirects.set(name, "127.0.0.9")
        error = self.assertRaises(MQError, redirects.change, names[-1], "127.0.0.9")
        self.assertEqual(error.status, FULL)
        self.assertIn("10000 names", str(error))
        redirects.change(names[0], "127.0.0.8")
        redirects.change(names[-1], None)
        redirects.set(names[0], None)
        redirects.change(names[-1], "127.0.0.9")

    def test_history(self) -> None:
        """The history of connections has the 64 newest entries."""
        queue = model().outgoing(parse_format_name(NAME_TEXT), NOW)
        for number in range(70):
            queue.history.append(ConnectionHistoryEntry(ConnectionStatus.ESTABLISHED, number))
        self.assertEqual([each.time for each in queue.history], list(range(6, 70)))

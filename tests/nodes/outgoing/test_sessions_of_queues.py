"""Which outgoing queue leads to which session, from the start of a queue manager to its end."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from msmq.queues.arriving.message import Delivery
from msmq.service.data_directory.identity import load_identity
from msmq.session.effects import CloseReason
from tests.builders import ALPHA
from tests.nodes.arrivals.receiver import EXPRESS
from tests.nodes.scripted import ScriptedTestCase, transactional
from tests.nodes.support import Node

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"
ALSO_TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\offers"
AT_ALPHA = "TCP:127.0.0.2\\private$\\orders"


class WaysTests(ScriptedTestCase):
    """ALPHA sends to BETA and to a plain peer GAMMA."""

    def test_each_name_has_its_session(self) -> None:
        """Messages for one host are sent on the session with that host (MQQB-3.1.5.2.1-01)."""
        self.listen()
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"for beta")
        self.send(self.alpha, TO_GAMMA, b"for gamma")
        self.clock.advance(1)
        self.assertEqual(self.peers[-1].bodies, [b"for gamma"])
        self.assertEqual(self.bodies(self.beta, path), [b"for beta"])
        addresses = {session.remote_address for session in self.alpha.service.inspection.sessions()}
        self.assertEqual(addresses, {"127.0.0.3", "127.0.0.4"})

    def test_a_new_session_is_limited_to_its_window(self) -> None:
        """A window of a hundred pending messages is sent at once when it opens (MQQB-3.1.3.2-08)."""
        stop = self.listen()
        self.send(self.alpha, TO_GAMMA, *[b"%d" % number for number in range(100)])
        self.clock.advance(1)
        self.assertEqual(len(self.peers[-1].bodies), 64)
        self.peers[-1].hang_up()
        self.clock.advance(6)
        self.assertEqual(self.peers[-1].bodies, [b"%d" % number for number in range(64)])
        stop()

    def test_message_identifiers_come_round(self) -> None:
        """After the last of them the first is given again, and both messages arrive: 0 is not given.

        MQQB-3.1.1.3-11, MQQB-3.1.7.1.1-01.
        """
        path = self.queue(self.beta)
        model = self.alpha.model
        model.take_message_ids(0xFFFFFFFE - model.take_message_ids(1))
        self.send(self.alpha, TO_BETA, b"last")
        self.send(self.alpha, TO_BETA, b"first")
        self.clock.advance(1)
        messages = self.take(self.beta, path)
        self.assertEqual([message.message_id for message in messages], [0xFFFFFFFF, 1])
        self.assertEqual([bytes(message.body) for message in messages], [b"last", b"first"])

    def test_a_pause_is_sent_to_the_peer(self) -> None:
        """It is to send one message at a time, until the queue is resumed."""
        self.listen()
        self.send(self.alpha, TO_GAMMA, b"1")
        self.clock.advance(1)
        self.alpha.service.pause_outgoing(TO_GAMMA)
        self.clock.advance(0.1)
        self.assertEqual(self.peers[-1].acks[-1][5], 1)
        self.send(self.alpha, TO_GAMMA, b"2")
        self.clock.advance(1)
        self.assertEqual(self.peers[-1].bodies, [b"1"])
        self.alpha.service.resume_outgoing(TO_GAMMA)
        self.clock.advance(1)
        self.assertEqual(self.peers[-1].bodies, [b"1", b"2"])

    def window_of_next(self) -> int:
        """The window that the queue manager states when the peer sends it a message."""
        peer = self.peers[-1]
        peer.acks.clear()
        peer.send(transactional(b"", (0, 0, 0), destination=AT_ALPHA, **EXPRESS))
        self.clock.advance(11)
        return peer.acks[-1][5]

    def pause(self, *names: str) -> None:
        """Two queues share a session, and these are paused."""
        self.queue(self.alpha)
        self.listen(is_prompt=True)
        for name in (TO_GAMMA, ALSO_TO_GAMMA):
            self.send(self.alpha, name, b"1")
        self.clock.advance(1)
        for name in names:
            self.successResultOf(self.alpha.service.pause_outgoing(name))
        self.clock.advance(0.1)
        self.assertEqual([len(self.peers), self.window_of_next()], [1, 1])

    def test_a_pause_ends_with_the_last_paused_queue(self) -> None:
        """The peer has the whole window again when no queue of the session is paused any more."""
        self.pause(TO_GAMMA, ALSO_TO_GAMMA)
        self.successResultOf(self.alpha.service.resume_outgoing(TO_GAMMA))
        self.assertEqual(self.window_of_next(), 1)
        self.successResultOf(self.alpha.service.resume_outgoing(ALSO_TO_GAMMA))
        self.assertEqual(self.window_of_next(), 64)

    def test_a_paused_queue_is_redirected(self) -> None:
        """The session that it does not use any more has the whole window, and keeps it."""
        self.pause(ALSO_TO_GAMMA)
        self.successResultOf(self.alpha.service.redirect_outgoing(ALSO_TO_GAMMA, "127.0.0.5"))
        self.assertEqual(self.window_of_next(), 64)
        self.successResultOf(self.alpha.service.resume_outgoing(ALSO_TO_GAMMA))
        self.assertEqual(self.window_of_next(), 64)

    def test_from_start_to_stop(self) -> None:
        """What waits is sent when it starts and not before; after it has stopped it has no session any more.

        MQQB-3.1.4-01.
        """
        self.send(self.alpha, TO_GAMMA, b"1", delivery=Delivery.RECOVERABLE)
        self.alpha.deaf()
        self.alpha.service.stopService()
        self.listen()
        opened = self.node("ALPHA", ALPHA, store=self.alpha.store)
        self.run_to_end(opened.service.open())
        self.clock.advance(60)
        self.assertEqual(self.waiting(opened), 1)
        self.assertEqual(self.peers, [])
        opened.service.startService()
        self.clock.advance(1)
        [peer] = self.peers
        self.assertEqual((peer.bodies, peer.is_lost), ([b"1"], False))
        opened.service.stopService()
        self.clock.advance(60)
        self.assertTrue(peer.is_lost)
        self.assertEqual(len(self.peers), 1)


class IdentityTests(ScriptedTestCase):
    """QueueManager.Identifier, as peers see it."""

    def introduced(self, directory: Path) -> UUID:
        """The ClientGuid of a queue manager whose data is in this directory."""
        node = Node(self.network, self.clock, "ALPHA", load_identity(directory), self.settings)
        node.start()
        self.send(node, TO_GAMMA, b"hello")
        self.clock.advance(1)
        identifier = UUID(bytes_le=self.peers[-1].client)
        node.factory.close_all(CloseReason.STOPPED)
        node.deaf()
        node.service.stopService()
        self.clock.advance(10)
        return identifier

    def test_it_is_made_once_for_each_installation(self) -> None:
        """Two of them differ, and each is the same after a restart (MQQB-3.1.1.3.1-02)."""
        self.alpha.deaf()
        self.alpha.service.stopService()
        self.listen()
        directories = [Path(self.mktemp()), Path(self.mktemp())]
        for directory in directories:
            directory.mkdir(parents=True)
        one, other, again = (self.introduced(directory) for directory in (*directories, directories[0]))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

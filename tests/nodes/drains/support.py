"""ALPHA drains queues to BETA."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.drains import DrainSummary
from msmq.structures.identifier_digest import add_to_digest, digest_text
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.builders import ALPHA
from tests.manager.support import FaultyStore
from tests.nodes.support import Node, NodesTestCase

ORDERS = ".\\private$\\orders"
AT_ALPHA = "DIRECT=OS:ALPHA\\private$\\orders"
AT_BETA = "DIRECT=OS:BETA\\private$\\orders"
GAMMA = UUID("0d7f6d0a-6c0c-4d55-8ba1-5f3ad3b6d3f1")


class DrainTestCase(NodesTestCase):
    """Stores survive the queue managers, as disks do.

    @ivar stores: by the names of queue managers.
    @ivar lives: queue managers that have been killed; collected, their waits would be cancelled.
    """

    def setUp(self) -> None:
        self.stores: dict[str, FaultyStore] = {}
        self.lives: list[Node] = []
        super().setUp()
        self.gamma = self.node("GAMMA", GAMMA)
        self.gamma.start()

    def tearDown(self) -> None:
        """A drain waits for messages as long as its queue manager runs, and nothing has stopped a killed
        one.
        """
        self.successResultOf(self.alpha.service.stopService())
        for life in self.lives:
            self.deferred(life.service.drains.end(ORDERS)).addErrback(lambda failure: failure.trap(MQError))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """A queue manager on its own store."""
        store = self.stores.setdefault(name, FaultyStore())
        return super().node(name, identifier, store=store, **kwargs)

    def restart(self, **kwargs: Any) -> None:
        """Stop ALPHA, and start it again on its store."""
        self.successResultOf(self.alpha.service.stopService())
        self.alpha.deaf()
        self.lives.append(self.alpha)
        self.alpha = self.node("ALPHA", ALPHA, **kwargs)
        self.alpha.start()

    def kill(self) -> None:
        """Kill ALPHA: what its store has not done is lost; then start it again."""
        self.network.crash(self.alpha.address)
        self.stores["ALPHA"].lose()
        self.lives.append(self.alpha)
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()

    def both(self, **kwargs: Any) -> None:
        """The queue at both ends; that of BETA has a message log."""
        self.queue(self.alpha, **kwargs)
        self.queue(self.beta, log=True, **kwargs)

    def begin(self, **kwargs: Any) -> DrainSummary:
        """Begin to drain the queue of ALPHA to BETA."""
        return self.run_to_end(self.alpha.service.drains.begin(ORDERS, AT_BETA, **kwargs))

    def arrived(self, node: Node) -> list[str]:
        """The identifiers in the message log of a queue."""
        logged = self.run_to_end(node.service.inspection.logged(ORDERS))
        return [str(message.view.identifier) for message in logged]

    def assert_proven(self) -> None:
        """Both ends have the same identifiers, in the same order, and so the same counts and digests."""
        summary = self.alpha.service.drains.summary(ORDERS)
        sent = list(self.alpha.service.drains.identifiers(ORDERS))
        arrived = self.arrived(self.beta)
        self.assertEqual(arrived, sent)
        self.assertEqual(summary.moved, len(sent))
        identities = [MessageIdentifier.parse(each).to_bytes() for each in arrived]
        self.assertEqual(summary.digest, digest_text(add_to_digest(0, identities)))

    def stored_views(self, *bodies: bytes, **kwargs: object) -> list[UserMessageView]:
        """GAMMA sends messages, which ALPHA has in its queue."""
        self.send(self.gamma, AT_ALPHA, *bodies, **kwargs)
        self.clock.advance(5)
        page = self.run_to_end(self.alpha.service.inspection.browse(ORDERS, count=1000))
        return [message.view for message in page.messages]

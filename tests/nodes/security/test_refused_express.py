"""Express messages whose signature is refused, and the configuration that permits them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs

from msmq.structures.packet.message_class import MessageClass
from tests.nodes.signed import WALL, SigningTestCase
from tests.nodes.support import Node


class RefusedExpressTests(SigningTestCase):
    """[MS-MQQB] figure 6: express messages that do not reach their queue."""

    permits = False

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, options={"send_insecure_nacks": self.permits}, **kwargs)

    def test_figure_6(self) -> None:
        """Each is acknowledged if its sender asked for it, the classes that help to probe only if permitted.

        MQQB-3.1.1.1.1.4-01, MQQB-3.1.5.8.3-06, MQDMPR-3.1.1.12-11.
        """
        self.listen(is_prompt=True)
        admin = "TCP:127.0.0.4\\private$\\admin"
        wanted = self.fields(admin=admin)
        nowhere = "TCP:127.0.0.3\\private$\\nowhere"
        orders = "TCP:127.0.0.3\\private$\\orders"
        cases: list[tuple[MessageClass, dict[str, Any]]] = [
            (MessageClass.NACK_BAD_SIGNATURE, {}),
            (MessageClass.NACK_REACH_QUEUE_TIMEOUT, {"time_to_reach_queue": 1, "sent_time": int(WALL) - 9}),
            (MessageClass.NACK_BAD_DST_Q, {"destination": nowhere}),
            (MessageClass.NACK_NOT_TRANSACTIONAL_MSG, {"destination": orders}),
        ]
        secure = {MessageClass.NACK_REACH_QUEUE_TIMEOUT, MessageClass.NACK_NOT_TRANSACTIONAL_MSG}
        expected = []
        for message_class, change in cases:
            for asks in (False, True):
                message = attrs.evolve(wanted, acknowledge=4 if asks else 0, **change)
                over = b"another" if message_class is MessageClass.NACK_BAD_SIGNATURE else None
                self.say(self.signed(message, over=over), seconds=5)
                if asks and (self.permits or message_class in secure):
                    expected.append(message_class)
        self.assertEqual(self.arrived() + self.arrived(self.path), [])
        self.assertEqual(len(self.reasons()), 2 * len(cases))
        reported = [heard.message_class for peer in self.peers for heard in peer.messages]
        self.assertEqual(reported, expected)


class PermittedTests(RefusedExpressTests):
    """The same of a queue manager that sends insecure acknowledgements."""

    permits = True

"""Negative acknowledgements: why a message did not arrive, or was removed before it was received."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs

from msmq.interfaces.security.access import IAccounts
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.objects import EnterpriseObject
from msmq.security.access.control import AccessControl
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_hop_count, patch_queue_manager_address
from msmq.testing.contracts.signing import SID
from tests.nodes.security.test_access import FOR_CLERKS, UNTRUSTED
from tests.nodes.signed import WALL, CountedDirectory, SigningTestCase
from tests.nodes.support import Node

NEGATIVE = 0x0C
ELSEWHERE = UUID(int=0xE15E)


class ArrivalRefusalsTests(SigningTestCase):
    """BETA is a routing server, permits all acknowledgements, and has a queue with restricted access."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if self.directory is None:
            self.directory = CountedDirectory(self.clock)
            self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        if name == "BETA":
            options: dict[str, Any] = {"send_insecure_nacks": True, "routing_server": True}
            access = AccessControl(IAccounts(self.directory), self.clock)
            kwargs["options"] = {**options, "access": AccessPolicy(access, SID)}
        return super().node(name, identifier, **kwargs)

    def test_each_reason(self) -> None:
        """MQDMPR-3.1.1.12-10: each draws an acknowledgement of its own class, if the sender asked for one."""
        self.queue(self.beta, "closed", security=FOR_CLERKS)
        self.queue(self.beta, "full", quota=0)
        self.listen(is_prompt=True)
        untrusted = self.dial(host=self.network.host(UNTRUSTED))
        queue = "TCP:127.0.0.3\\private$\\"
        late = {"time_to_reach_queue": 1, "sent_time": int(WALL) - 9}
        cases: list[tuple[MessageClass, dict[str, Any]]] = [
            (MessageClass.NACK_BAD_DST_Q, {"destination": f"{queue}nowhere"}),
            (MessageClass.NACK_Q_PURGED, {}),
            (MessageClass.NACK_REACH_QUEUE_TIMEOUT, late),
            (MessageClass.NACK_Q_EXCEED_QUOTA, {"destination": f"{queue}full"}),
            (MessageClass.NACK_ACCESS_DENIED, {"destination": f"{queue}closed"}),
            (MessageClass.NACK_HOP_COUNT_EXCEEDED, {}),
        ]
        for message_class, change in cases:
            for acknowledge in (0, NEGATIVE):
                fields = self.fields(admin="TCP:127.0.0.4\\private$\\admin", **change)
                packet = attrs.evolve(fields, acknowledge=acknowledge).packet()
                if message_class is MessageClass.NACK_HOP_COUNT_EXCEEDED:
                    packet = patch_queue_manager_address(patch_hop_count(packet, 29), ELSEWHERE.bytes_le)
                is_denied = message_class is MessageClass.NACK_ACCESS_DENIED
                (untrusted if is_denied else self.peer).send(packet)
                self.clock.advance(5)
                self.run_to_end(self.beta.service.purge_queue(self.plain))
                self.clock.advance(5)
        reported = [heard.message_class for peer in self.peers for heard in peer.messages]
        self.assertEqual(reported, [message_class for message_class, _ in cases])

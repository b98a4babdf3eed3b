"""[MS-MQOD] 3: the worked examples that need no DTC, RPC, HTTP or multicast.

3.3 and 3.4 are in tests.estates.test_administration, 3.9 in tests.estates.test_connector.
3.6 needs SRMP (HTTP), 3.8 multicast.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.security.signing import KeptCertificate
from msmq.manager.securing.message_security import SecurityProviders
from msmq.membership.objects import UserObject
from msmq.queues.arriving.message import Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.algorithms import AuthenticationLevel, PrivacyLevel
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.packet.message_class import MessageClass
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.clock import START
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from msmq.transfer.security.cipher_choice import Preferences
from tests.estates.support import MACHINE_JOURNAL, TRANSACTIONAL_DEAD_LETTERS, EstateTestCase
from tests.nodes.support import ADDRESSES, Node

DAY = 86400.0
ORDERS = ".\\private$\\orders"


class DisconnectedDataEntryTests(EstateTestCase):
    """[MS-MQOD] 3.1 Example 1: a salesperson's laptop (ALPHA), and the central office (ZETA)."""

    def test_order_entry(self) -> None:
        """Message 1 is transferred, acknowledged, processed and confirmed to the laptop.

        Message 2 finds no network: once its time has expired, it is in the laptop's dead-letter queue.
        """
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.commit(self.alpha, name, b"message 1", journal=True, dead_letter=True)
        self.wait(5)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"message 1"])
        self.wait(30)
        self.assertEqual(self.system_bodies(self.alpha, MACHINE_JOURNAL), [b"message 1"])
        self.isolate("ALPHA")
        self.commit(self.alpha, name, b"message 2", journal=True, dead_letter=True, time_to_reach_queue=90)
        self.wait(80)
        self.assertEqual(self.waiting(self.alpha), 1)
        self.wait(20)
        self.assertEqual(self.waiting(self.alpha), 0)
        [view] = self.system(self.alpha, TRANSACTIONAL_DEAD_LETTERS)
        self.assertEqual(
            (bytes(view.body), view.message_class), (b"message 2", MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        )
        self.rejoin("ALPHA")
        self.commit(self.alpha, name, b"message 3")
        self.wait(120)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"message 3"])


class WebOrderEntryTests(EstateTestCase):
    """[MS-MQOD] 3.2 Example 2, without its remote read: web servers and the queue before the back end."""

    def test_orders_of_several_web_servers(self) -> None:
        """Each web server answers its client at once; its orders reach the one queue in their order."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        servers = [self.nodes[each] for each in ("ALPHA", "GAMMA")]
        self.isolate("ZETA")
        for number in range(10):
            for server in servers:
                self.commit(server, name, b"%s %d" % (server.address.encode(), number))
        self.wait(30)
        self.rejoin("ZETA")
        self.wait(120)
        received = self.take_in_transaction(self.zeta, path)
        for server in servers:
            mine = [body for body in received if body.startswith(server.address.encode())]
            self.assertEqual(mine, [b"%s %d" % (server.address.encode(), number) for number in range(10)])
        self.assertEqual(len(received), 20)


class SecuredEstateTestCase(EstateTestCase):
    """Every member has keys for encryption; ALPHA's user signs with a certificate that the directory has."""

    def setUp(self) -> None:
        self.signing = MemorySigning()
        self.ciphers: dict[str, MemoryCiphers] = {}
        self.certificates = {name: MemoryCertificateStore() for name in ADDRESSES}
        self.credentials = self.signing.create("agent", START.wall - DAY, START.wall + DAY)
        self.certificates["ALPHA"].add(KeptCertificate(self.credentials, SID, is_internal=True))
        super().setUp()
        self.register(SID)

    def options_of(self, name: str) -> dict[str, Any]:
        return {
            "ciphers": self.ciphers.setdefault(name, MemoryCiphers(name)),
            "encryption": Preferences(),
            "providers": SecurityProviders(
                signing=self.signing,
                certificates=self.certificates[name],
                sender=SID if name == "ALPHA" else OTHER_SID,
            ),
        }

    def register(self, sid: bytes) -> None:
        """Publish the certificate of a user."""
        entry = MqUserSignCert.of(self.credentials.certificate, UUID(int=7))
        assert self.directory is not None
        self.directory.add(
            UserObject(
                identifier=UUID(int=0xA11CE),
                security_identifier=sid,
                certificate_digest_list=(entry.digest,),
                certificates=MqUserSignCerts((entry,)),
            )
        )


class BranchOfficeTests(SecuredEstateTestCase):
    """[MS-MQOD] 3.5 Example 5: a branch office (ALPHA), regional offices, and the headquarters (ZETA)."""

    def sales(self, *bodies: bytes) -> list[Message]:
        return [
            Message(body=body, transactional=True, privacy_level=PrivacyLevel.ADVANCED) for body in bodies
        ]

    def test_encrypted_over_gates(self) -> None:
        """Sales data is encrypted for the headquarters, passes the gates unread, and is decrypted there."""
        path = self.queue(self.zeta, transactional=True, privacy="body")
        name = self.private_name(self.zeta, path)
        self.crash("EPSILON")
        self.run_to_end(self.alpha.service.send(name, self.sales(b"north", b"south")))
        self.wait(10)
        stored = b"".join(body for gate in ("BETA", "DELTA") for body in self.in_transit(self.nodes[gate]))
        self.assertTrue(stored)
        self.assertNotIn(b"north", stored)
        self.restart("EPSILON")
        self.wait(150)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"north", b"south"])

    def in_transit(self, gate: Node) -> list[bytes]:
        """The bodies that an administrator of a gate finds in its outgoing queues."""
        found: list[bytes] = []
        for queue in gate.service.inspection.outgoing():
            if not queue.messages:
                continue
            opened = gate.service.open_queue(queue.format_name, QueueAccessType.PEEK_ADMIN)
            found += [bytes(self.run_to_end(opened.peek(timeout=0)).view.body)]
            opened.close()
        return found

    def test_alternate_route(self) -> None:
        """When a region cannot be reached, the dearer link straight to the destination site is used."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.crash("DELTA")
        self.commit(self.alpha, name, b"around")
        self.wait(60)
        [view] = self.take(self.zeta, path)
        self.assertEqual((bytes(view.body), view.hop_count), (b"around", 2))


class ServerFarmTests(SecuredEstateTestCase):
    """[MS-MQOD] 3.7 Example 7: an agent (ALPHA), and the intermediary server (ZETA) with its analysis."""

    def test_authenticated_requests(self) -> None:
        """A signed and encrypted request is accepted; the analysis reaches the agent's response queue."""
        path = self.queue(self.zeta, transactional=True, authenticate=True, privacy="body")
        responses = self.queue(self.alpha, "responses", transactional=True)
        request = Message(
            body=b"analyse",
            transactional=True,
            privacy_level=PrivacyLevel.ADVANCED,
            authentication_level=AuthenticationLevel.SIG_2_0,
            response_queue=self.format_name(self.alpha, responses),
        )
        self.run_to_end(self.alpha.service.send(self.private_name(self.zeta, path), [request]))
        self.wait(10)

        async def analyse(node: Node) -> None:
            async with node.service.begin() as transaction:
                view = await node.service.receive(path, timeout=0, transaction=transaction)
                answer = Message(
                    body=bytes(view.body) + b"d",
                    transactional=True,
                    correlation_id=view.identifier.to_bytes(),
                )
                await node.service.send(str(view.response_format_name()), [answer], transaction=transaction)

        self.run_to_end(analyse(self.zeta))
        self.wait(10)
        self.assertEqual(self.take_in_transaction(self.alpha, responses), [b"analysed"])

    def test_unsigned_request(self) -> None:
        """An unsigned request is refused, and is a dead letter of the agent with the class that says why."""
        path = self.queue(self.zeta, transactional=True, authenticate=True)
        name = self.private_name(self.zeta, path)
        self.commit(self.alpha, name, b"unsigned", dead_letter=True)
        self.wait(40)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [])
        [view] = self.system(self.alpha, TRANSACTIONAL_DEAD_LETTERS)
        self.assertEqual(
            (bytes(view.body), view.message_class), (b"unsigned", MessageClass.NACK_BAD_SIGNATURE)
        )

"""Queue managers of one directory that encrypt for each other."""

from __future__ import annotations

from typing import Any

from msmq.membership.objects import QueueManagerObject
from msmq.net.session import SessionProtocol
from msmq.queues.outgoing import OutgoingQueue
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.body_encryption import EncryptedBody, with_encrypted_body
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.ciphers import MemoryCiphers
from msmq.transfer.security.cipher_choice import Preferences
from tests.builders import user_packet
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.support import Node

BASE, ENHANCED, ADVANCED = PrivacyLevel.BASE, PrivacyLevel.ENHANCED, PrivacyLevel.ADVANCED
DEADLETTER, DEADXACT = ".\\system$;deadletter", ".\\system$;deadxact"
SECRET = b"for the reader of the queue alone"


class EncryptionTestCase(EnterpriseTestCase):
    """ALPHA sends to a queue of BETA in its site; all queue managers have keys.

    @ivar wire: the packets that ALPHA has sent, in their order.
    @ivar weak: whether weak ciphers may be used.
    @ivar preferences: of all queue managers.
    """

    weak = True
    preferences = Preferences(weak=True)

    def setUp(self) -> None:
        self.ciphers: dict[str, MemoryCiphers] = {}
        self.wire: list[UserMessageView] = []
        super().setUp()
        self.path = self.queue(self.beta)
        self.name = self.private_name(self.beta, self.path)

    def member(self, name: str) -> Node:
        ciphers = self.ciphers.setdefault(name, MemoryCiphers(name, weak=self.weak))
        node = Node(
            self.network,
            self.clock,
            name,
            IDENTIFIERS[name],
            self.settings,
            self.disks.setdefault(name, MemoryMessageStore(durable=True)),
            directory=self.directory,
            options={"ciphers": ciphers, "encryption": self.preferences, **self.more_options(name)},
        )
        if name == "ALPHA":
            node.factory.protocol = self.recording
        return node

    def more_options(self, name: str) -> dict[str, Any]:
        """Options of a queue manager in addition to ciphers."""
        return {}

    def recording(self, *arguments: Any) -> SessionProtocol:
        """A session of ALPHA; what it sends is in L{wire}."""
        wire = self.wire

        class Recording(SessionProtocol):
            def message_sent(self, message: OutgoingMessage) -> None:
                wire.append(UserMessageView(message.packet))

        return Recording(*arguments)

    def publish(self, name: str, *providers: str) -> None:
        """Have the directory hold only these keys of a queue manager."""
        assert self.directory is not None
        keys = self.ciphers[name].encryption_keys.keys
        held = MqdsPublicKeys(tuple(key for key in keys if key.provider_name in providers))
        written = QueueManagerObject(
            identifier=IDENTIFIERS[name], computer_name=name, public_encryption_key_list=held
        )
        self.successResultOf(self.directory.write(written, ("public_encryption_key_list",)))

    def encrypted(self, *bodies: bytes, level: PrivacyLevel = ADVANCED, **kwargs: Any) -> None:
        """ALPHA sends, and it arrives."""
        self.send(self.alpha, self.name, *bodies, privacy_level=level, **kwargs)
        self.clock.advance(5)

    def key(self, number: int = -1) -> bytes:
        """EncryptionKey of a packet on the wire."""
        security = self.wire[number].security
        assert security is not None
        return security.encryption_key

    def outgoing(self, name: str | None = None) -> OutgoingQueue:
        """The outgoing queue of ALPHA."""
        found = self.alpha.model.collection.find_outgoing(parse_format_name(name or self.name))
        assert found is not None
        return found

    def explain(self, node: Node, view: UserMessageView) -> list[str]:
        """The events of a message at a queue manager."""
        explanation = self.run_to_end(node.service.inspection.explain(view.identifier))
        return [f"{event.event}: {event.reason}" for event in explanation.events]

    def plain(self, number: int = 1) -> bytes:
        """An unencrypted packet of ALPHA for the queue, made by another program."""
        return user_packet(
            SECRET,
            private_number=int(self.name.rpartition("\\")[2], 16),
            queue_manager=IDENTIFIERS["BETA"],
            source=IDENTIFIERS["ALPHA"],
            message_id=0x10000 + number,
            sent_time=self.clock.now().unix_seconds,
        )

    def foreign(
        self, *, level: int = 5, algorithm: int = 0x6610, receiver: str = "BETA", number: int = 1
    ) -> bytes:
        """The same message, encrypted, with any flags."""
        ciphers = self.ciphers["ALPHA"]
        public_key = self.ciphers[receiver].encryption_keys.keys[2].key
        made = ciphers.make_session_key(0x6610, 256, 256, public_key)
        cipher_text = ciphers.encrypt(0x6610, made.key, SECRET)
        body = EncryptedBody(cipher_text, level, algorithm, made.encrypted)
        return with_encrypted_body(UserMessageView(self.plain(number)), body)

    def put(self, packet: bytes) -> None:
        """Have ALPHA send a packet as it is."""
        self.put_packet(self.alpha, self.name, packet)
        self.clock.advance(5)

"""Queue managers that verify, a directory that knows two users, and a peer that signs as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.security.signing import Credentials, ISigning
from msmq.manager.securing.message_security import SecurityProviders
from msmq.membership.objects import EnterpriseObject, UserObject
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import START
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from msmq.transfer.security.signature_rules import SigningPolicy
from tests.builders import GAMMA
from tests.nodes.scripted import ScriptedTestCase
from tests.nodes.support import Node
from tests.signed_messages import Fields

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\{}"
DAY = 86400.0
WALL = START.wall
LEVELS = (AuthenticationLevel.SIG_1_0, AuthenticationLevel.SIG_2_0, AuthenticationLevel.SIG_3_0)
BAD_SIGNATURE = "NACK_BAD_SIGNATURE from 127.0.0.4: "


class CountedDirectory(MemoryDirectory):
    """Counts what it is asked for.

    @ivar reads: the types of the objects that were asked for.
    @ivar meanwhile: called between a read and its answer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reads: list[type] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def read(self, of: type, *args: Any, **kwargs: Any) -> Any:
        """See L{IDirectory.read}."""
        self.reads.append(of)
        found = super().read(of, *args, **kwargs)
        self.meanwhile()
        return found


class SigningTestCase(ScriptedTestCase):
    """BETA in a directory that knows the certificate of one user, and GAMMA, whose signatures the tests
    choose.

    @ivar policy: of BETA.
    """

    policy = SigningPolicy()

    def setUp(self) -> None:
        self.signing = self.make_signing()
        self.own_stores: dict[str, MemoryCertificateStore] = {}
        self.directory: CountedDirectory | None = None
        self.registered: set[bytes] = set()
        super().setUp()
        self.path = self.queue(self.beta, transactional=True)
        self.plain = self.queue(self.beta, "plain")
        self.strict = self.queue(self.beta, "strict", authenticate=True)
        self.alice = self.make_credentials(0)
        self.bob = self.make_credentials(1)
        self.register(SID, self.alice)
        self.register(OTHER_SID, self.bob)
        self.peer = self.dial()
        self.number = 0

    def make_signing(self) -> ISigning:
        return MemorySigning()

    def make_credentials(self, number: int) -> Credentials:
        return self.signing.create(f"user {number}", WALL - DAY, WALL + DAY)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if self.directory is None:
            self.directory = CountedDirectory(self.clock)
            self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        store = self.own_stores.setdefault(name, MemoryCertificateStore())
        providers = SecurityProviders(
            signing=self.signing, certificates=store, signing_policy=self.policy, sender=SID
        )
        options = {"providers": providers, **kwargs.pop("options", {})}
        return super().node(name, identifier, directory=self.directory, options=options, **kwargs)

    def register(self, sid: bytes, *made: Credentials) -> None:
        """Have the directory hold these certificates of a user, and no others."""
        entries = tuple(MqUserSignCert.of(each.certificate, UUID(int=7)) for each in made)
        user = UserObject(
            identifier=UUID(int=int.from_bytes(sid[-4:], "little")),
            security_identifier=sid,
            certificate_digest_list=tuple(entry.digest for entry in entries),
            certificates=MqUserSignCerts(entries),
        )
        assert self.directory is not None
        if sid in self.registered:
            self.successResultOf(self.directory.write(user))
        else:
            self.registered.add(sid)
            self.directory.add(user)

    def signed(
        self,
        message: Fields,
        level: int = 3,
        *,
        by: Credentials | None = None,
        security_id: bytes = SID,
        over: bytes | None = None,
        algorithm: int = HashAlgorithm.SHA_512,
        **kwargs: Any,
    ) -> bytes:
        """A message with a signature over what the documents list for that level."""
        made = by or self.alice
        data = message.signed_over(level) if over is None else over
        signature = self.signing.sign(made, algorithm, data)
        assert isinstance(signature, bytes), signature
        return message.with_security(
            security_id, signature, made.certificate, hash_algorithm=algorithm, **kwargs
        )

    def fields(self, **kwargs: Any) -> Fields:
        """An express message of GAMMA."""
        self.number += 1
        kwargs = {"source": GAMMA, "recoverable": False, "message_id": self.number, "admin": "", **kwargs}
        return Fields(acknowledge=0, **{"dead_letter": False, **kwargs})

    def say(self, *packets: bytes, seconds: float = 0.1) -> None:
        """Send packets; each express message gets a MessageID of its own, which no signature covers."""
        self.peer.send(*(packet if packet[60] & 0x20 else self.renumbered(packet) for packet in packets))
        self.clock.advance(seconds)

    def renumbered(self, packet: bytes) -> bytes:
        """The packet with a MessageID that no other has."""
        self.number += 1
        return packet[:56] + self.number.to_bytes(4, "little") + packet[60:]

    def arrived(self, path: str | None = None) -> list[UserMessageView]:
        """The messages in the queue."""
        return self.take(self.beta, path or self.plain)

    def reasons(self, node: Node | None = None) -> list[str]:
        """Why messages were refused, since this was asked last."""
        stored = self.successResultOf((node or self.beta).store.read_events(0, 1000))
        found = [entry.event.reason for entry in stored if entry.event.event == "refused"]
        seen, self._seen = getattr(self, "_seen", 0), len(found)
        return found[seen:]

    def refused(self, packet: bytes) -> str:
        """Why a message is not taken."""
        self.say(packet)
        self.assertEqual(self.arrived(), [])
        [reason] = self.reasons()
        self.assertTrue(reason.startswith(BAD_SIGNATURE), reason)
        return reason.removeprefix(BAD_SIGNATURE)

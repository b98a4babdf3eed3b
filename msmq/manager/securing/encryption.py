"""Encrypting the Message Body of messages to other queue managers. [MS-MQQB] 3.1.7.1.5.

A message is stored in clear and encrypted whenever it is sent, for its destination queue manager.
Queue managers on the route forward it without being able to read it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.security.ciphers import CipherError, ICiphers
from msmq.moment import Moment
from msmq.queues.queue import MessagePosition, different_positions
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.body_encryption import (
    EncryptedBody,
    encryption_input,
    is_encrypted,
    with_encrypted_body,
)
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.transfer.security.cipher_choice import CannotEncryptError, CipherChoice, Preferences, choose
from msmq.transfer.security.key_cache import CachedSymmetricKey, SymmetricKeyCache
from msmq.wire.guid import NULL_GUID, format_guid, guid_from_bytes

REMEMBERED: Final = 1000
"""Limit on cached public keys of queue managers."""

FAILURE_HOLDS: Final = 5.0
"""Seconds for which missing keys are not queried again."""

ReadKeys: TypeAlias = Callable[[UUID], Awaitable[MqdsPublicKeys]]

_NAMED: Final = frozenset(
    {
        QueueNameKind.PRIVATE_ON_SOURCE,
        QueueNameKind.PRIVATE_ON_DESTINATION,
        QueueNameKind.PRIVATE,
        QueueNameKind.PUBLIC,
    }
)


@attrs.frozen
class Failure:
    """Why messages cannot be encrypted. [MS-MQQB] 3.1.7.1.5.1.

    @ivar status: the HRESULT for the connection history.
    """

    status: Status
    reason: str


@attrs.frozen
class _RemoteKeys:
    """RemoteQMPublicKey, or why it is unknown. [MS-MQQB] 3.1.1.3.1.

    @ivar until: when the directory is queried again, in seconds of the monotonic clock.
    """

    keys: MqdsPublicKeys | Failure
    until: float


@attrs.define(eq=False)
class Encrypted:
    """A message for a session, with its body encrypted.

    It is not the message itself, whose packet stays in clear.
    """

    message: OutgoingMessage
    packet: bytes = attrs.field(repr=False)

    @property
    def is_recoverable(self) -> bool:
        """Whether the peer has to store it before acknowledging it."""
        return self.message.is_recoverable


def plain(messages: Iterable[OutgoingMessage]) -> Iterator[OutgoingMessage]:
    """The original messages, before encryption."""
    for message in messages:
        yield message.message if isinstance(message, Encrypted) else message


@attrs.frozen
class EncryptedMessages:
    """Messages after encryption, with failures.

    @ivar positions: those that may be sent.
    @ivar failed: those that may not, with the reasons.
    """

    positions: Sequence[MessagePosition]
    failed: Mapping[Failure, Sequence[MessagePosition]]
    _bodies: Mapping[MessagePosition, EncryptedBody] = attrs.field(repr=False)

    def outgoing(self, messages: Sequence[OutgoingMessage]) -> Sequence[OutgoingMessage]:
        """The messages to send, encrypted where required."""
        if not self._bodies:
            return messages
        return [self._sealed(message) for message in messages]

    def _sealed(self, message: OutgoingMessage) -> OutgoingMessage:
        position = message if isinstance(message, MessagePosition) else getattr(message, "message", None)
        body = self._bodies.get(position) if isinstance(position, MessagePosition) else None
        if body is None:
            return message
        return Encrypted(message, with_encrypted_body(UserMessageView(message.packet), body))


class Encryption:
    """Encrypts messages that request it."""

    def __init__(
        self,
        reactor: IReactorTime,
        clock: IClock,
        ciphers: ICiphers | None,
        read_keys: ReadKeys | None,
        preferences: Preferences,
    ) -> None:
        """Create the part, with the keys of the directory.

        @param ciphers: C{None} without a directory: then nothing can be encrypted.
        @param read_keys: reads PublicEncryptionKeyList of a queue manager from the directory.
        """
        self._clock = clock
        self._ciphers = ciphers
        self._read_keys = read_keys
        self._preferences = preferences
        self._cache = SymmetricKeyCache(preferences.send_keys, preferences.lifetime)
        self._remote: OrderedDict[UUID, _RemoteKeys] = OrderedDict()
        self._timer = DeadlineTimer(reactor, clock, self._expire)

    def configure(self, preferences: Preferences) -> None:
        """Apply other preferences to the next message; cached keys are used until they expire."""
        self._preferences = preferences
        self._cache.configure(preferences.send_keys, preferences.lifetime)

    def stop(self) -> None:
        """Leave the cache of keys as it is."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """SendSymmetricKeyCache Cleanup Timer Event. [MS-MQQB] 3.1.6.11."""
        self._cache.expire(now)
        self._timer.set(self._cache.deadline)

    def concerns(self, positions: Sequence[MessagePosition]) -> bool:
        """Whether any of these messages, as far as they are in memory, has to be encrypted."""
        for position in different_positions(positions):
            view = position.view
            if view is not None and view.asks_for_privacy:
                return True
        return False

    def has_to_ask(self, positions: Iterable[MessagePosition]) -> bool:
        """Whether a directory query is needed before these messages, which are in memory, can be sent."""
        now = self._clock.now().monotonic
        return any(not self._is_known(owner, now) for owner in self._owners(positions))

    async def ask(self, positions: Iterable[MessagePosition]) -> None:
        """Initialize RemoteQMPublicKey of the destinations of these messages. [MS-MQQB] 3.1.7.1.5.

        Nothing is raised: L{seal} reports failures.
        """
        for owner in list(self._owners(positions)):
            if not self._is_known(owner, self._clock.now().monotonic):
                await self._ask(owner)

    async def _ask(self, owner: UUID) -> None:
        lifetime = self._preferences.lifetime
        keys: MqdsPublicKeys | Failure
        try:
            if self._read_keys is None:
                raise MQError(
                    Status.MQ_ERROR_NO_DS, "this queue manager has no directory, where keys are published"
                )
            keys = await self._read_keys(owner)
        except MQError as error:
            keys = Failure(
                error.status, f"the directory has no public key of {format_guid(owner)}: {error.detail}"
            )
            lifetime = FAILURE_HOLDS
        before = self._remote.pop(owner, None)
        if before is not None and isinstance(keys, MqdsPublicKeys) and before.keys != keys:
            self._cache.forget(owner)
        self._remote[owner] = _RemoteKeys(keys, self._clock.now().monotonic + lifetime)
        if len(self._remote) > REMEMBERED:
            self._remote.popitem(last=False)

    def _is_known(self, owner: UUID, now: float) -> bool:
        known = self._remote.get(owner)
        return known is not None and now < known.until

    def _owners(self, positions: Iterable[MessagePosition]) -> Iterator[UUID]:
        """The receivers for which these messages have to be encrypted, each once."""
        owners: dict[bytes, None] = {}
        for position in positions:
            view = position.view
            if view is not None and view.privacy_level and _is_named(view) and not is_encrypted(view):
                owners[view.queue_manager_address] = None
        return map(guid_from_bytes, owners)

    def seal(self, positions: Sequence[MessagePosition]) -> EncryptedMessages:
        """Encrypt these messages, as far as required, after L{ask}."""
        ready: list[MessagePosition] = []
        failed: dict[Failure, list[MessagePosition]] = {}
        bodies: dict[MessagePosition, EncryptedBody] = {}
        for position in positions:
            view = position.view
            if view is None or not view.privacy_level or is_encrypted(view):
                ready.append(position)
                continue
            outcome = self._encrypt(position, view)
            if isinstance(outcome, Failure):
                failed.setdefault(outcome, []).append(position)
            else:
                bodies[position] = outcome
                ready.append(position)
        return EncryptedMessages(ready, failed, bodies)

    def _encrypt(self, position: MessagePosition, view: UserMessageView) -> EncryptedBody | Failure:
        if not _is_named(view):
            return Failure(
                Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                "only messages to PUBLIC= and PRIVATE= names can be encrypted",
            )
        owner = guid_from_bytes(view.queue_manager_address)
        known = self._remote.get(owner)
        if known is None:
            return Failure(Status.MQ_ERROR_NO_DS, f"unknown public key of {format_guid(owner)}")
        if isinstance(known.keys, Failure):
            return known.keys
        try:
            choice = choose(known.keys, view.privacy_level, self._preferences)
            key = self._session_key(owner, choice)
            body = self._working.encrypt(choice.algorithm, key.key, encryption_input(view))
            encrypted = EncryptedBody(body, choice.level, choice.algorithm, key.encrypted_key)
            with_encrypted_body(UserMessageView(position.packet), encrypted)
        except CannotEncryptError as error:
            return Failure(Status.MQ_ERROR_PUBLIC_KEY_NOT_FOUND, f"{error} ({format_guid(owner)})")
        except CipherError as error:
            return Failure(
                Status.MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED, f"{error} ({format_guid(owner)})"
            )
        except LocalProtocolError as error:
            return Failure(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES, f"its packet would be too large encrypted: {error}"
            )
        return encrypted

    @property
    def _working(self) -> ICiphers:
        if self._ciphers is None:
            raise CipherError("this queue manager has no ciphers")
        return self._ciphers

    def _session_key(self, owner: UUID, choice: CipherChoice) -> CachedSymmetricKey:
        """UseCachedKey. [MS-MQQB] 3.1.7.1.5."""
        found = self._cache.to_send(owner, choice.provider_name, choice.algorithm)
        if found is not None:
            return found
        now = self._clock.now()
        made = self._working.make_session_key(
            choice.algorithm, choice.key_bits, choice.padded_bits, choice.public_key
        )
        key = CachedSymmetricKey(
            owner, choice.provider_name, choice.algorithm, made.encrypted, made.key, now.monotonic
        )
        self._cache.add_to_send(key, now)
        self._timer.set(self._cache.deadline)
        return key


def _is_named(view: UserMessageView) -> bool:
    """Whether the destination has a public or a private format name. [MS-MQQB] 3.1.7.1.5."""
    return view.destination_kind in _NAMED and view.queue_manager_address != NULL_GUID.bytes_le

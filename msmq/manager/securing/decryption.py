"""The step that decrypts the body of a message for a local queue. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.security.ciphers import CipherError, ICiphers
from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted, Refused
from msmq.moment import Moment
from msmq.queues.queue import Queue
from msmq.structures.algorithms import EncryptionAlgorithm
from msmq.structures.packet.body_encryption import encryption_input, with_clear_body
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.security.body_variants import choose_body
from msmq.transfer.security.cipher_choice import (
    Preferences,
    key_fault,
    received_provider,
    why_not_decrypted,
)
from msmq.transfer.security.key_cache import CachedSymmetricKey, SymmetricKeyCache
from msmq.wire.guid import guid_from_bytes


class Decryption:
    """Replaces an encrypted body by the clear one; a message that cannot be decrypted is refused.

    An attacker who has captured an encrypted body could decrypt it with many modified copies, if the padding
    of each were reported as valid or not (a padding oracle). So a signed message that cannot be decrypted is
    passed to the verification of signatures, and refused there for its signature, which is wrong in any case;
    and a key is cached as soon as it is decrypted, independent of the body.
    """

    name = "the decryption"
    message_class = MessageClass.NACK_BAD_ENCRYPTION

    def __init__(
        self, reactor: IReactorTime, clock: IClock, ciphers: ICiphers | None, preferences: Preferences
    ) -> None:
        """Create the step, with the keys of this queue manager.

        @param ciphers: C{None} without a directory, where peers would find the keys.
        """
        self._clock = clock
        self._ciphers = ciphers
        self._preferences = preferences
        self._cache = SymmetricKeyCache(preferences.receive_keys, preferences.lifetime)
        self._timer = DeadlineTimer(reactor, clock, self._expire)

    def configure(self, preferences: Preferences) -> None:
        """Apply other preferences to the next message; cached keys are used until they expire."""
        self._preferences = preferences
        self._cache.configure(preferences.receive_keys, preferences.lifetime)

    def stop(self) -> None:
        """Leave the cache of keys as it is."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """ReceiveSymmetricKeyCache Cleanup Timer Event. [MS-MQQB] 3.1.6.10."""
        self._cache.expire(now)
        self._timer.set(self._cache.deadline)

    def guards(self, session: ISession, queue: Queue) -> bool:
        """A message without a SecurityHeader is not encrypted."""
        return False

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Accepted | Refused:
        """Decrypt the body; returns the message with the clear body, or a refusal."""
        security = message.security
        if security is None or not security.is_body_encrypted:
            return message
        why_not = self._why_not(message.view)
        if why_not is not None:
            return Refused(MessageClass.NACK_BAD_ENCRYPTION, why_not)
        try:
            bodies = self._decrypted(message.view, security.encryption_key)
            if not message.is_signed:
                body = choose_body(message.view.body_type, bodies)
                if body is None:
                    return Refused(
                        MessageClass.NACK_BAD_ENCRYPTION,
                        f"its body of BodyType {message.view.body_type} is not text, decrypted with its key"
                        " of 40 bits with or without salt",
                    )
                bodies = (body,)
            view, *others = [UserMessageView(with_clear_body(message.view, body)) for body in bodies]
        except CipherError as error:
            return self._unreadable(message, str(error))
        except LocalProtocolError as error:
            return self._unreadable(message, f"its packet cannot be rebuilt with the decrypted body: {error}")
        return attrs.evolve(message, view=view, security=view.security, alternatives=tuple(others))

    def _unreadable(self, message: Accepted, reason: str) -> Accepted | Refused:
        if message.is_signed:
            return attrs.evolve(message, unreadable=reason)
        return Refused(MessageClass.NACK_BAD_ENCRYPTION, reason)

    def _why_not(self, view: UserMessageView) -> str | None:
        """Why a body is refused without decryption, for reasons that do not depend on its contents."""
        if self._ciphers is None:
            return "its body is encrypted, and this queue manager, without a directory, has no keys"
        return why_not_decrypted(view.privacy_level, view.encryption_algorithm, self._preferences)

    def _decrypted(self, view: UserMessageView, encrypted_key: bytes) -> Sequence[bytes]:
        """The clear bodies that the encrypted one may stand for, at least one."""
        ciphers, preferences = self._ciphers, self._preferences
        assert ciphers is not None
        level, algorithm = view.privacy_level, view.encryption_algorithm
        source = guid_from_bytes(view.source_queue_manager)
        provider = received_provider(level, algorithm)
        assert provider is not None
        key = self._cache.received(source, provider, algorithm, encrypted_key)
        if key is None:
            now = self._clock.now()
            found = ciphers.recover_session_key(provider, encrypted_key)
            if found.algorithm != algorithm:
                raise CipherError(
                    f"EncryptionKey is for {EncryptionAlgorithm(found.algorithm).name}, and the body "
                    f"uses {EncryptionAlgorithm(algorithm).name}"
                )
            key = CachedSymmetricKey(source, provider, algorithm, encrypted_key, found.key, now.monotonic)
            self._cache.add_received(key, now)
            self._timer.set(self._cache.deadline)
        if (fault := key_fault(level, algorithm, key.key, preferences)) is not None:
            raise CipherError(fault)
        return ciphers.decrypt_variants(algorithm, key.key, encryption_input(view))

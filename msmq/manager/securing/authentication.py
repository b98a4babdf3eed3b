"""Authentication of the sender of an arriving message by its signature. [MS-MQQB] 3.1.5.8.3.

A valid signature proves that the owner of the certificate made it. The directory identifies the owner: the
user with the SID in the message has to have exactly this certificate there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, assert_never
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.clock import IClock
from msmq.interfaces.security.signing import CertificateFacts, ISigning, Unusable
from msmq.interfaces.session import ISession
from msmq.manager.securing.certificates import Certificates
from msmq.manager.securing.inspection import Accepted, Answer, Outcome, Refused
from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, UserObject
from msmq.membership.queries import AttributeFilter, equals
from msmq.membership.requests import Outcome as DirectoryOutcome
from msmq.moment import Moment
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel, EncryptionAlgorithm
from msmq.structures.directory.user_sign_certs import digest_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.signature_input import SIGNATURE_INPUTS
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.token_bucket import TokenBucket
from msmq.transfer.security.certificate_cache import UserCertCache
from msmq.transfer.security.message_requirements import SecurityFault
from msmq.transfer.security.sender_identity import (
    NoStatedSender,
    StatedQueueManager,
    StatedUser,
    stated_sender,
    unproven_fault,
)
from msmq.transfer.security.signature_rules import (
    SigningPolicy,
    certificate_fault,
    certificate_text,
    method_fault,
    version_fault,
)
from msmq.transfer.security.unproven_senders import UnprovenSenders
from msmq.wire.guid import format_guid
from msmq.wire.sid import format_sid

OWNER_READS: Final = 10
"""Directory queries in a second for the owner of a certificate, which only the reason of a refusal needs."""

ReadDirectory = Callable[
    [type[DirectoryObject], Sequence[AttributeFilter], tuple[str, ...]], Awaitable[DirectoryOutcome]
]
"""Read Directory, on behalf of this queue manager. [MS-MQDMPR] 3.1.7.1.20."""

Version: TypeAlias = AuthenticationLevel | Unusable | None
"""The version of a verified signature, C{None} for an invalid one, or why its certificate is unusable."""

_WITHOUT_KEYS: Final = "the directory has no signing key of this queue manager"

_NO_SECOND: Final = bytes(4)
"""The second part of a double signature without one of 2.0."""


class Authentication:
    """Verifies signatures, and that certificates are those of their senders.

    @param certificates: those of this queue manager itself, which need no directory; C{None} if it has none.
    @param read_directory: queries the directory; in workgroup mode it returns DirectoryNotConnected.
    """

    name = "the check of the signature"
    message_class = MessageClass.NACK_BAD_SIGNATURE

    def __init__(
        self,
        signing: ISigning,
        policy: SigningPolicy,
        clock: IClock,
        reactor: IReactorTime,
        cache: UserCertCache,
        unproven: UnprovenSenders,
        certificates: Certificates | None,
        read_directory: ReadDirectory,
    ) -> None:
        """Create the step, with the signing policy."""
        self._signing = signing
        self._policy = policy
        self._clock = clock
        self._cache = cache
        self._unproven = unproven
        self._owner_reads = TokenBucket.full(OWNER_READS, clock.now())
        self._certificates = certificates
        self._read_directory = read_directory
        self._timer = DeadlineTimer(reactor, clock, self._expire)

    def configure(self, policy: SigningPolicy) -> None:
        """Apply another policy to the next message."""
        self._policy = policy

    def stop(self) -> None:
        """Leave the cache of certificates as it is."""
        self._timer.stop()

    def _expire(self, now: Moment) -> None:
        """UserCertCache Cleanup Timer Event. [MS-MQQB] 3.1.6.13."""
        self._cache.expire(now)
        self._timer.set(self._cache.deadline)

    def guards(self, session: ISession, queue: Queue) -> bool:
        """False: an unsigned message has nothing to verify; L{QueueRequirements} decides whether it is
        accepted.
        """
        return False

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """See L{SecurityStep.check<msmq.manager.securing.inspection.SecurityStep.check>}."""
        security = message.security
        if security is None or not message.is_signed:
            return message
        problem = self._unusable(security, message.view)
        if problem is not None:
            return problem
        if message.alternatives:
            found = self._chosen(message, security)
            if isinstance(found, Refused):
                return found
            message = found
        level = self._verify(security, message.view)
        if message.unreadable is not None:
            # With the same class as a wrong signature, and not earlier; see Decryption.
            return _bad(f"it is signed, and cannot be read: {message.unreadable}")
        if isinstance(level, Refused):
            return level
        return self._identify(queue, attrs.evolve(message, authentication=level), security)

    def _unusable(self, security: SecurityHeader, view: UserMessageView) -> Refused | None:
        """Why a signature is refused without verification."""
        info = security.provider_info
        fault = method_fault(
            self._policy,
            has_certificate=bool(security.sender_cert),
            is_default_provider=security.is_default_provider,
            provider_name=None if info is None else info.provider_name,
            hash_algorithm=view.hash_algorithm,
        )
        if fault is None:
            facts = self._signing.facts(security.sender_cert)
            if isinstance(facts, Unusable):
                return _bad(f"its certificate {facts.reason}")
            fault = certificate_fault(facts, self._policy, self._clock.now().wall)
        return None if fault is None else Refused(fault.message_class, fault.reason)

    def _chosen(self, message: Accepted, security: SecurityHeader) -> Accepted | Refused:
        """The message with the body that was signed, of several that its encrypted body may stand for.

        RC2 has padding, and a class that depends on how many variants have valid padding would reveal it
        (see L{Decryption<msmq.manager.securing.decryption.Decryption>}); so only RC4 is refused here.
        """
        for view in (message.view, *message.alternatives):
            if isinstance(version_of(self._signing, security, view), AuthenticationLevel):
                return attrs.evolve(message, view=view, alternatives=())
        if message.view.encryption_algorithm == EncryptionAlgorithm.RC4:
            return Refused(
                MessageClass.NACK_BAD_ENCRYPTION,
                "its body, decrypted with its RC4 key of 40 bits with or without salt, is not the signed one",
            )
        return message

    def _verify(self, security: SecurityHeader, view: UserMessageView) -> AuthenticationLevel | Refused:
        """Verify the signature; the result is the version of its format, if that is accepted."""
        level = version_of(self._signing, security, view)
        if isinstance(level, Unusable):
            return _bad(f"its certificate {level.reason}")
        if level is None and (surplus := _surplus(security)):
            return _bad(
                f"{len(surplus)} bytes follow the NUL of its ProviderName, and are not its signature of 2.0"
                " behind one of 1.0"
            )
        shown = self._certificate(security.sender_cert) if level is None else ""
        fault = version_fault(level, shown, self._policy)
        if level is None or fault is not None:
            return _bad("" if fault is None else fault.reason)
        return level

    def _identify(self, queue: Queue, message: Accepted, security: SecurityHeader) -> Answer:
        """Find the owner of the certificate."""
        source = message.view.source_queue_manager
        stated = stated_sender(security.sender_id_type, security.security_id, source)
        match stated:
            case SecurityFault():
                return Refused(stated.message_class, stated.reason)
            case NoStatedSender(reason):
                return self._unauthenticated(queue, message, reason)
            case StatedQueueManager(identifier):
                return self._identify_queue_manager(queue, message, security, identifier)
            case StatedUser(sid):
                return self._identify_user(message, security, sid)
            case _:
                assert_never(stated)

    def _identify_user(self, message: Accepted, security: SecurityHeader, sid: str) -> Answer:
        """The user with this certificate: known here, or according to the directory."""
        certificate, sender = security.sender_cert, security.security_id
        if self._cache.find(certificate, sender) is not None or any(
            kept.security_identifier == sender and kept.credentials.certificate == certificate
            for kept in (() if self._certificates is None else self._certificates.kept)
        ):
            return attrs.evolve(message, sender=sender)
        known = self._unproven.find(sender, certificate, self._clock.now())
        if known is not None:
            return _bad(known.reason(certificate) or self._not_among(certificate, sid, known.count))
        return Deferred.fromCoroutine(self._ask_for_user(message, security, sid))

    async def _ask_for_user(self, message: Accepted, security: SecurityHeader, sid: str) -> Outcome:
        certificate, sender = security.sender_cert, security.security_id
        found = await self._read_directory(
            UserObject, [equals("security_identifier", sender)], ("certificates",)
        )
        now = self._clock.now()
        if not found.succeeded:
            if found.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
                self._unproven.add(sender, None, now)
                return _bad(self._not_among(certificate, sid, None))
            shown = self._certificate(certificate)
            reason = f"the certificate {shown} is not confirmed as that of {sid}: {_why(found, 'user')}"
            if found.result is DirectoryOperationResult.ATTRIBUTE_NOT_FOUND:
                self._unproven.add(sender, (), now).explain(certificate, reason)
            return _bad(reason)
        registered = found.value.values.get("certificates")
        entries = () if registered is None else registered.certificates
        for entry in entries:
            if entry.certificate == certificate:
                self._cache.add(entry, sender, now)
                self._timer.set(self._cache.deadline)
                return attrs.evolve(message, sender=sender)
        known = self._unproven.add(sender, [entry.certificate for entry in entries], now)
        reason = self._not_among(certificate, sid, known.count)
        if (owner := await self._owner(certificate)) is not None:
            shown = self._certificate(certificate)
            reason = f"its certificate {shown} is that of {owner} in the directory, not of {sid}"
        known.explain(certificate, reason)
        return _bad(reason)

    def _not_among(self, certificate: bytes, sid: str, count: int | None) -> str:
        """The refusal of a certificate that is not registered for the user.

        @param count: the number that the directory has for the user; C{None} for an unknown user.
        """
        shown = self._certificate(certificate)
        if count is None:
            return f"the certificate {shown} is not confirmed as that of {sid}: {_unknown('user')}"
        return f"its certificate {shown} is not one of the {count} that the directory has for {sid}"

    async def _owner(self, certificate: bytes) -> str | None:
        """The owner of a certificate in the directory, within the limit on queries."""
        if not self._owner_reads.has_one(self._clock.now()):
            return None
        self._owner_reads.take()
        filters = [equals("certificate_digest_list", digest_of(certificate))]
        found = await self._read_directory(UserObject, filters, ("security_identifier",))
        if not found.succeeded:
            return None
        sid: Any = found.value.values.get("security_identifier")
        try:
            return format_sid(sid)
        except (TypeError, ValueError):
            return None

    def _identify_queue_manager(
        self, queue: Queue, message: Accepted, security: SecurityHeader, identifier: UUID
    ) -> Answer:
        """The queue manager that has signed the message itself; its keys are in the directory."""
        facts = self._signing.facts(security.sender_cert)
        key = _key(facts.modulus, facts.public_exponent) if isinstance(facts, CertificateFacts) else b""
        known = self._unproven.find((QueueManagerObject, security.security_id), key, self._clock.now())
        if known is not None:
            return self._other_key(queue, message, identifier, known.count)
        return Deferred.fromCoroutine(self._ask_for_queue_manager(queue, message, identifier, key))

    async def _ask_for_queue_manager(
        self, queue: Queue, message: Accepted, sender: UUID, key: bytes
    ) -> Outcome:
        found = await self._read_directory(
            QueueManagerObject, [equals("identifier", sender)], ("public_signing_key_list",)
        )
        remembered = (QueueManagerObject, sender.bytes_le)
        if not found.succeeded:
            if found.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
                self._unproven.add(remembered, None, self._clock.now())
                return self._other_key(queue, message, sender, None)
            return self._unknown_key(queue, message, sender, _why(found, "queue manager"))
        published = found.value.values.get("public_signing_key_list")
        keys = [
            _key(entry.key.modulus, entry.key.public_exponent)
            for entry in (() if published is None else published.keys)
        ]
        if key in keys:
            return attrs.evolve(message, sender=sender.bytes_le)
        known = self._unproven.add(remembered, keys, self._clock.now())
        return self._other_key(queue, message, sender, known.count)

    def _other_key(self, queue: Queue, message: Accepted, sender: UUID, count: int | None) -> Outcome:
        """The refusal of a key that is not one of the queue manager.

        @param count: the number that the directory has for it; C{None} for an unknown queue manager.
        """
        if not count:
            why = _unknown("queue manager") if count is None else _WITHOUT_KEYS
            return self._unknown_key(queue, message, sender, why)
        return _bad(f"the directory has another signing key for the queue manager {format_guid(sender)}")

    def _unknown_key(self, queue: Queue, message: Accepted, sender: UUID, why: str) -> Outcome:
        name = format_guid(sender)
        return self._unauthenticated(
            queue, message, f"the keys of the queue manager {name} are unknown: {why}"
        )

    def _unauthenticated(self, queue: Queue, message: Accepted, why: str) -> Outcome:
        """The outcome for a valid signature whose key does not authenticate the sender."""
        definition = queue.definition
        fault = unproven_fault(definition.path, why, authenticate=definition.authenticate)
        if fault is not None:
            return Refused(fault.message_class, fault.reason)
        return attrs.evolve(message, authentication=AuthenticationLevel.NONE)

    def _certificate(self, certificate: bytes) -> str:
        facts = self._signing.facts(certificate)
        return "" if isinstance(facts, Unusable) else certificate_text(facts)


def version_of(signing: ISigning, security: SecurityHeader, view: UserMessageView) -> Version:
    """The version of a signature's format (reading 71); C{None} if the signature is invalid.

    A double signature, [MS-MQMP] note 5, is one of 1.0 followed by one of 2.0, and counts as the latter; or
    by four zero bytes, and is one of 1.0. The second part is in the field of the first, or behind the NUL of
    ProviderName (reading 109).
    """

    def verified(signature: bytes, *levels: AuthenticationLevel) -> Version:
        inputs = (SIGNATURE_INPUTS[level](view) for level in levels)
        found = signing.verify(security.sender_cert, signature, view.hash_algorithm, inputs)
        return levels[found] if isinstance(found, int) else found

    def verified_double(first: bytes, second: bytes) -> Version:
        found = verified(first, AuthenticationLevel.SIG_1_0)
        if found is not AuthenticationLevel.SIG_1_0 or second == _NO_SECOND:
            return found
        return verified(second, AuthenticationLevel.SIG_2_0)

    signature = security.signature
    surplus = _surplus(security)
    if surplus:
        return verified_double(signature, surplus)
    if not signature:
        multi_queue = view.multi_queue_format
        other = b"" if multi_queue is None else multi_queue.signature.signature
        return verified(other, AuthenticationLevel.SIG_3_0)
    level = verified(signature, *SIGNATURE_INPUTS)
    if level is None and signature.endswith(_NO_SECOND):
        level = verified_double(signature[: -len(_NO_SECOND)], _NO_SECOND)
    if level is None and len(signature) % 2 == 0:
        half = len(signature) // 2
        level = verified_double(signature[:half], signature[half:])
    return level


def _surplus(security: SecurityHeader) -> bytes:
    """The bytes behind the NUL of ProviderName."""
    info = None if security.is_default_provider else security.provider_info
    return b"" if info is None else info.surplus


def _bad(reason: str) -> Refused:
    return Refused(MessageClass.NACK_BAD_SIGNATURE, reason)


def _key(modulus: int, public_exponent: int) -> bytes:
    """A public key in a comparable form."""
    return f"{modulus:x} {public_exponent:x}".encode("ascii")


def _unknown(what: str) -> str:
    return f"the directory has no such {what}"


def _why(outcome: DirectoryOutcome, what: str) -> str:
    if outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
        return _unknown(what)
    if outcome.result is DirectoryOperationResult.ATTRIBUTE_NOT_FOUND:
        return f"the directory has no certificate of this {what}"
    return f"the directory does not answer ({outcome.detail or outcome.result.name})"

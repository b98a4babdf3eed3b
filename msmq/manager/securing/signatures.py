"""Signing the Packet, when a message of an application is accepted. [MS-MQQB] 3.1.7.1.4.

The signed packet is stored, and is sent unchanged, however often.
"""

from __future__ import annotations

from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.security.signing import ISigning, Unusable
from msmq.manager.securing.authentication import version_of
from msmq.manager.securing.certificates import Certificates
from msmq.queues.arriving.message import Message
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.signature_input import SIGNATURE_INPUTS
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_rewrites import (
    patch_authentication_level,
    patch_message_class,
    patch_security_header,
)
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MessageTooLarge, MQError, Status
from msmq.transfer.security.signature_rules import HASH_NAMES, SigningPolicy
from msmq.wire.sid import format_sid


class Signer:
    """Adds sender identifiers to messages, and signs messages for applications.

    @ivar sender: the SID of local senders.
    @ivar sends_sender: whether unsigned messages carry it, unless they are sent without.
    """

    def __init__(
        self,
        identifier: UUID,
        sender: bytes,
        signing: ISigning | None,
        policy: SigningPolicy,
        clock: IClock,
        certificates: Certificates | None,
        *,
        sends_sender: bool,
    ) -> None:
        """Create the signer of a queue manager and its local senders.

        @param identifier: of the queue manager.
        @param certificates: the signing certificates; without them messages cannot be signed.
        """
        self.sends_sender = sends_sender
        self._identifier = identifier.bytes_le
        self.sender = sender
        self._signing = signing
        self._policy = policy
        self._clock = clock
        self._certificates = certificates

    def configure(self, policy: SigningPolicy) -> None:
        """Apply another policy to the next message."""
        self._policy = policy

    def secure(self, view: UserMessageView, message: Message, is_local: bool) -> UserMessageView:
        """SenderIdentifier: the packet of a message with its sender identifier. [MS-MQDMPR] 3.1.1.12.

        @raise MQError: as L{sign}.
        """
        if message.authentication_level:
            return self.sign(view, message, is_local)
        kind = message.sender_identifier_type
        if kind is SenderIdType.NONE or (kind is None and not self.sends_sender):
            return view
        is_queue_manager = kind is SenderIdType.QUEUE_MANAGER
        header = SecurityHeader(
            sender_id_type=SenderIdType.QUEUE_MANAGER if is_queue_manager else SenderIdType.SID,
            security_id=self._identifier if is_queue_manager else self.sender,
        )
        return self._patched(view, header)

    def signed_again(self, view: UserMessageView, message: Message) -> Message:
        """Sign a message that is sent again as it was signed, if its certificate is stored here.

        If that is not valid any more, another one of the same user signs it.

        @param view: the dead letter, whose class is the reason of the failure; when it was signed it had
        none. A message whose signature does not verify was not signed here, whatever certificate it contains.
        """
        security = view.security
        if (
            security is None
            or not security.sender_cert
            or self._certificates is None
            or self._signing is None
        ):
            return message
        for kept in self._certificates.kept:
            if kept.credentials.certificate == security.sender_cert:
                original = UserMessageView(patch_message_class(view, MessageClass.NORMAL))
                level = version_of(self._signing, security, original)
                if not isinstance(level, AuthenticationLevel):
                    return message
                signed = attrs.evolve(
                    message,
                    authentication_level=level,
                    sender_certificate=self._certificates.facts(self._certificates.valid(kept)).fingerprint,
                    sender_identifier_type=_identifier_type(security),
                )
                # The receiver may know no other hash.
                is_allowed = view.hash_algorithm in self._policy.hashes
                return attrs.evolve(signed, hash_algorithm=view.hash_algorithm) if is_allowed else signed
        return message

    def sign(self, view: UserMessageView, message: Message, is_local: bool) -> UserMessageView:
        """The packet of a message with its signature, certificate and sender identifier.

        A message to several queues has one signature over all of them, that of MSMQ 3.0, in the
        MultiQueueFormatHeader.

        @param is_local: its queue is local, so the signature need not be verified.
        @raise MQError: MQ_ERROR_CERTIFICATE_NOT_PROVIDED without such a certificate,
            MQ_ERROR_INVALID_CERTIFICATE if it is not valid, MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a hash
            algorithm that is not allowed, MQ_ERROR_CANNOT_SIGN_DATA_EX if its key does not sign,
            MQ_ERROR_INSUFFICIENT_RESOURCES if the packet gets too large.
        """
        if self._signing is None or self._certificates is None:
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED, "this queue manager has no provider for signatures"
            )
        kept = self._certificates.find(message.sender_certificate)
        facts = self._certificates.facts(kept)
        if not facts.not_before <= self._clock.now().wall <= facts.not_after:
            raise MQError(
                Status.MQ_ERROR_INVALID_CERTIFICATE,
                f"the certificate {facts.fingerprint[:16]} of {format_sid(kept.security_identifier)}"
                " is not valid now",
            )
        self._check_hash(message.hash_algorithm)
        is_multiple = bool(view.flags & UserHeader.MQ)
        level = AuthenticationLevel.SIG_3_0 if is_multiple else message.authentication_level
        data = SIGNATURE_INPUTS[level](view)
        signature = self._signing.sign(kept.credentials, message.hash_algorithm, data)
        if isinstance(signature, Unusable):
            raise MQError(
                Status.MQ_ERROR_CANNOT_SIGN_DATA_EX,
                f"the certificate {facts.fingerprint[:16]} {signature.reason}",
            )
        kind = message.sender_identifier_type
        if kind is None:
            kind = SenderIdType.SID
        identifiers = {
            SenderIdType.NONE: b"",
            SenderIdType.SID: kept.security_identifier,
            SenderIdType.QUEUE_MANAGER: self._identifier,
        }
        header = SecurityHeader(
            sender_id_type=kind,
            security_id=identifiers[kind],
            signature=b"" if is_multiple else signature,
            sender_cert=kept.credentials.certificate,
            is_default_provider=True,
        )
        signed = self._patched(view, header, signature if is_multiple else b"")
        # A certificate that does not name the user is not accepted for it.
        return patch_authentication_level(signed, level) if is_local and kind is SenderIdType.SID else signed

    def _patched(
        self, view: UserMessageView, header: SecurityHeader, multi_queue_signature: bytes = b""
    ) -> UserMessageView:
        try:
            return patch_security_header(view, header, multi_queue_signature)
        except LocalProtocolError as error:
            raise MessageTooLarge(f"its SecurityHeader does not fit: {error}") from error

    def _check_hash(self, number: int) -> None:
        try:
            algorithm = HashAlgorithm(number)
        except ValueError:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"unknown hash algorithm {number:#06x}"
            ) from None
        if algorithm not in self._policy.hashes:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f'[security] hashes would have to name "{HASH_NAMES[algorithm]}" to sign with it',
            )


def _identifier_type(security: SecurityHeader) -> SenderIdType | None:
    """The type of the sender identifier in a message; C{None} for an unknown one."""
    try:
        return SenderIdType(security.sender_id_type)
    except ValueError:
        return None

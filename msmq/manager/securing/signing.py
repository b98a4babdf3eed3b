"""[MS-MQQB] 3.1.7.1.4 Signing the Packet: done when an application's message is taken.

The packet is the record: what is signed is stored, and leaves as it is however often.
"""

from __future__ import annotations

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.signing import ISigning, Unusable
from msmq.manager.securing.authenticating import HASH_NAMES, SigningPolicy
from msmq.manager.securing.certificates import Certificates
from msmq.queues.message import Message
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.security_header import SecurityHeader, SenderIdType
from msmq.structures.signature_input import SIGNATURE_INPUTS
from msmq.structures.status import MQError, Status
from msmq.structures.user_header import UserHeader
from msmq.structures.user_message_patches import patch_authentication_level, patch_security_header
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.sid import format_sid


class Signer:
    """Signs what applications want signed, with the certificates that are here."""

    def __init__(
        self, signing: ISigning, policy: SigningPolicy, clock: IClock, certificates: Certificates
    ) -> None:
        self._signing = signing
        self._policy = policy
        self._clock = clock
        self._certificates = certificates

    def sign(self, view: UserMessageView, message: Message, is_local: bool) -> UserMessageView:
        """The packet of a message with its signature, certificate and SID.

        A message to several queues has its signature over all of them, which is MSMQ 3.0's, in the
        MultiQueueFormatHeader.

        @param is_local: it goes into a queue of ours, which need not verify what we have just signed.
        @raise MQError: MQ_ERROR_CERTIFICATE_NOT_PROVIDED without such a certificate,
            MQ_ERROR_INVALID_CERTIFICATE if it is not valid, MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a hash
            algorithm that is not allowed, MQ_ERROR_CANNOT_SIGN_DATA_EX if its key does not sign,
            MQ_ERROR_INSUFFICIENT_RESOURCES if the packet gets too large.
        """
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
        header = SecurityHeader(
            sender_id_type=SenderIdType.SID,
            security_id=kept.security_identifier,
            signature=b"" if is_multiple else signature,
            sender_cert=kept.credentials.certificate,
            is_default_provider=True,
        )
        try:
            signed = patch_security_header(view, header, signature if is_multiple else b"")
        except LocalProtocolError as error:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES, f"there is no room for its signature: {error}"
            ) from error
        return patch_authentication_level(signed, level) if is_local else signed

    def _check_hash(self, number: int) -> None:
        try:
            algorithm = HashAlgorithm(number)
        except ValueError:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"nobody knows the hash algorithm {number:#06x}"
            ) from None
        if algorithm not in self._policy.hashes:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f'[security] hashes would have to name "{HASH_NAMES[algorithm]}" to sign with it',
            )

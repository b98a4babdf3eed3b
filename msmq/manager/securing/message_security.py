"""Security of one queue manager: constructs its parts, and orders the inspection steps of arrivals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.clock import IClock
from msmq.interfaces.security.signing import ICertificateStore, ISigning
from msmq.manager.securing.authentication import Authentication, ReadDirectory
from msmq.manager.securing.certificate_publication import CertificatePublisher, UserDirectory
from msmq.manager.securing.certificates import Certificates
from msmq.manager.securing.decryption import Decryption
from msmq.manager.securing.inspection import Inspector, SecurityStep
from msmq.manager.securing.queue_access_check import QueueAccessCheck
from msmq.manager.securing.queue_requirements import QueueRequirements
from msmq.manager.securing.reply_access_check import ReplyAccessCheck
from msmq.manager.securing.security_descriptors import SecurityDescriptors
from msmq.manager.securing.signatures import Signer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.model import QueueManagerModel
from msmq.transfer.security.certificate_cache import UserCertCache
from msmq.transfer.security.signature_rules import SigningPolicy
from msmq.transfer.security.unproven_senders import UnprovenSenders
from msmq.windows.well_known_sids import ANONYMOUS


@attrs.frozen(kw_only=True)
class SecurityProviders:
    """Providers for the security of a queue manager's messages; each is optional.

    @ivar signing: creates and verifies signatures.
    @ivar certificates: stores signing certificates; without it messages cannot be signed.
    @ivar signing_policy: which signatures are accepted and created.
    @ivar sender: the SID of local senders; by default that of an anonymous one.
    @ivar sends_sender: whether unsigned messages carry it too.
    """

    signing: ISigning | None = None
    certificates: ICertificateStore | None = None
    signing_policy: SigningPolicy = attrs.field(factory=SigningPolicy)
    sender: bytes = ANONYMOUS
    sends_sender: bool = False

    def make_certificates(
        self, clock: IClock, in_thread: Callable[..., Deferred[Any]]
    ) -> Certificates | None:
        """The signing certificates; C{None} if messages cannot be signed.

        @param in_thread: calls a function in a worker thread.
        """
        if self.signing is None or self.certificates is None:
            return None
        return Certificates(self.signing, self.certificates, clock, self.sender, in_thread)


class MessageSecurity:
    """The security of one queue manager.

    @ivar inspector: checks arriving messages.
    @ivar certificates: the signing certificates; C{None} if messages cannot be signed.
    @ivar signer: adds sender identifiers to messages, and signs them.
    @ivar publisher: registers certificates in the directory; C{None} without certificates.
    @ivar access_check: whether the sender of a message may write to a queue.
    @ivar user_cert_cache: the certificates that the directory has confirmed.
    """

    def __init__(
        self,
        model: QueueManagerModel,
        providers: SecurityProviders,
        certificates: Certificates | None,
        signer: Signer,
        trusted_peers: TrustedPeers,
        decryption: Decryption,
        descriptors: SecurityDescriptors | None,
        reactor: IReactorTime,
        clock: IClock,
        read_directory: ReadDirectory,
        users: UserDirectory | None,
        new_identifier: Callable[[], UUID],
    ) -> None:
        """Create the parts, with the steps in the order of [MS-MQQB] 3.1.5.8.3.

        @param read_directory: queries the directory; in workgroup mode it returns DirectoryNotConnected.
        @param users: the users in the directory; C{None} in workgroup mode.
        """
        self.certificates = certificates
        self.signer = signer
        self.user_cert_cache = UserCertCache()
        unproven = UnprovenSenders()
        self.publisher = (
            None
            if certificates is None
            else CertificatePublisher(certificates, users, new_identifier, self.user_cert_cache, unproven)
        )
        self._authentication: Authentication | None = None
        steps: list[SecurityStep] = [trusted_peers, QueueRequirements(), decryption]
        if providers.signing is not None:
            self._authentication = Authentication(
                providers.signing,
                providers.signing_policy,
                clock,
                reactor,
                self.user_cert_cache,
                unproven,
                certificates,
                read_directory,
            )
            steps.append(self._authentication)
        self.access_check = QueueAccessCheck(trusted_peers, descriptors)
        replies = ReplyAccessCheck(model, self.access_check, clock)
        self.inspector = Inspector(reactor, [*steps, self.access_check, replies], replies)

    def configure(self, policy: SigningPolicy) -> None:
        """Apply another policy to signatures that are created and verified from now on."""
        self.signer.configure(policy)
        if self._authentication is not None:
            self._authentication.configure(policy)

    def open(self) -> None:
        """Load the stored state.

        @raise MQError: the certificates cannot be read.
        """
        if self.certificates is not None:
            self.certificates.load()

    def stop(self) -> None:
        """Stop inspecting; the cache of certificates stays."""
        self.inspector.stop()
        if self._authentication is not None:
            self._authentication.stop()

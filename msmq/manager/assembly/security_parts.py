"""Signatures, encryption and access control of a queue manager."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.interfaces.security.ciphers import ICiphers
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.assembly.core import ManagerCore
from msmq.manager.assembly.directory_parts import DirectoryParts, MembershipParts
from msmq.manager.manager_settings import ManagerSecurity
from msmq.manager.membership.directory_users import DirectoryUsers
from msmq.manager.securing.certificate_publication import UserDirectory
from msmq.manager.securing.certificates import Certificates
from msmq.manager.securing.decryption import Decryption
from msmq.manager.securing.encryption import Encryption
from msmq.manager.securing.message_security import MessageSecurity
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.public_security import PublicSecurity
from msmq.manager.securing.security_descriptors import SecurityDescriptors
from msmq.manager.securing.signatures import Signer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.membership.access import NO_DIRECTORY
from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.queries import AttributeFilter
from msmq.membership.requests import Outcome


@attrs.frozen
class SigningParts:
    """Creates signatures.

    @ivar certificates: the signing certificates; C{None} if messages cannot be signed.
    """

    certificates: Certificates | None
    signer: Signer


@attrs.frozen(kw_only=True)
class SecurityParts:
    """Who may do what, and the signatures and the encryption of messages.

    @ivar trusted_peers: the addresses that may send unauthenticated messages.
    @ivar descriptors: the security descriptors of queues; C{None} without access control.
    @ivar permissions: changes and explains these; C{None} without access control.
    @ivar ciphers: encrypts and decrypts bodies; C{None} in workgroup mode, or without keys.
    @ivar messages: verifies, decrypts and signs messages.
    """

    trusted_peers: TrustedPeers
    descriptors: SecurityDescriptors | None
    permissions: Permissions | None
    ciphers: ICiphers | None
    decryption: Decryption
    encryption: Encryption
    messages: MessageSecurity


def make_signing_parts(core: ManagerCore, security: ManagerSecurity) -> SigningParts:
    """Make what creates signatures."""
    providers, clock = security.providers, core.runtime.clock
    certificates = providers.make_certificates(clock, core.runtime.in_thread)
    signer = Signer(
        core.model.identifier,
        providers.sender,
        providers.signing,
        providers.signing_policy,
        clock,
        certificates,
        sends_sender=providers.sends_sender,
    )
    return SigningParts(certificates, signer)


def make_security_parts(
    core: ManagerCore,
    directory: DirectoryParts,
    membership: MembershipParts | None,
    local: LocalQueues,
    signing: SigningParts,
    security: ManagerSecurity,
    changes: DirectoryChanges,
) -> SecurityParts:
    """Make what checks rights, signatures and encrypted bodies.

    @param changes: how changes that others make in the directory are handled.
    """
    reactor, clock = core.runtime.reactor, core.runtime.clock
    integration = None if membership is None else membership.integration
    descriptors = _descriptors(core, directory, membership, security, changes)
    ciphers = None if membership is None else security.ciphers
    decryption = Decryption(reactor, clock, ciphers, security.encryption)
    users: UserDirectory | None = None
    if integration is not None:
        directory_users = DirectoryUsers(integration)
        users = UserDirectory(directory_users.read, directory_users.write)
    return SecurityParts(
        trusted_peers=security.trusted_peers,
        descriptors=descriptors,
        permissions=(
            None
            if descriptors is None
            else Permissions(core.performer, local, descriptors, security.trusted_peers)
        ),
        ciphers=ciphers,
        decryption=decryption,
        encryption=Encryption(
            reactor,
            clock,
            ciphers,
            None if integration is None else integration.encryption_keys,
            security.encryption,
        ),
        messages=MessageSecurity(
            core.model,
            security.providers,
            signing.certificates,
            signing.signer,
            security.trusted_peers,
            decryption,
            descriptors,
            reactor,
            clock,
            _no_directory if integration is None else integration.read,
            users,
            core.runtime.new_identifier,
        ),
    )


def _descriptors(
    core: ManagerCore,
    directory: DirectoryParts,
    membership: MembershipParts | None,
    security: ManagerSecurity,
    changes: DirectoryChanges,
) -> SecurityDescriptors | None:
    if security.access is None:
        return None
    public: PublicSecurity | None = None
    if membership is not None:
        clock = core.runtime.clock
        public = PublicSecurity(membership.integration, clock, changes, directory.divergences)
    return SecurityDescriptors(security.access, public)


async def _no_directory(
    of: type[DirectoryObject], filters: Sequence[AttributeFilter], attributes: tuple[str, ...] | None
) -> Outcome:
    """Read Directory in workgroup mode. [MS-MQDMPR] 3.1.7.1.20."""
    return NO_DIRECTORY

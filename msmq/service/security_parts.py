"""Parts of one server that decide about trust, from its configuration: access, signatures and encryption."""

from __future__ import annotations

import os
from pathlib import Path

from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory, IWatchedDirectory
from msmq.interfaces.security.access import IAccessControl, IAccounts
from msmq.interfaces.security.ciphers import ICiphers
from msmq.manager.securing.message_security import SecurityProviders
from msmq.manager.securing.security_descriptors import AccessPolicy, DefaultDescriptor
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.security.access.control import AccessControl
from msmq.security.access.guarded_access_control import GuardedAccessControl
from msmq.security.access.rules import NO_RULES, Rules, load_rules, principal
from msmq.security.certificate_store import FileCertificateStore
from msmq.security.ciphers import LibraryCiphers
from msmq.security.keys import KeyRing
from msmq.security.signatures import LibrarySigning
from msmq.service.settings import Configuration, SecuritySettings
from msmq.structures.algorithms import EncryptionAlgorithm
from msmq.transfer.security.cipher_choice import Preferences
from msmq.transfer.security.signature_rules import HASH_NAMES, VERSION_NAMES, SigningPolicy
from msmq.windows.well_known_sids import user_sid
from msmq.wire.addresses import AddressSet
from msmq.wire.sid import parse_sid


def read_rules(configuration: Configuration) -> Rules:
    """The file of rules.

    @raise RulesError: it cannot be used.
    """
    rules = configuration.security.rules
    return NO_RULES if rules is None else load_rules(Path(rules))


def ciphers(configuration: Configuration) -> ICiphers:
    """The ciphers, with the keys of the data directory."""
    security = configuration.security
    return LibraryCiphers(
        KeyRing(
            configuration.queue_manager.data / "keys",
            weak=security.weak_algorithms,
            bits=security.encryption_key_bits,
        )
    )


def encryption_preferences(configuration: Configuration) -> Preferences:
    """How outgoing messages are encrypted, and how many symmetric keys are kept."""
    security, limits = configuration.security, configuration.limits

    def algorithm(name: str) -> EncryptionAlgorithm:
        return EncryptionAlgorithm[name.replace("-", "_")]

    return Preferences(
        advanced=algorithm(security.preferred_advanced_algorithm),
        enhanced=algorithm(security.preferred_enhanced_algorithm),
        base=algorithm(security.preferred_base_algorithm),
        sends_40_bits=security.send_enhanced_rc2_with_40_bit_keys,
        rejects_40_bits=security.reject_enhanced_rc2_with_40_bit_keys,
        weak=security.weak_algorithms,
        send_keys=limits.send_symmetric_keys,
        receive_keys=limits.receive_symmetric_keys,
        lifetime=configuration.timers.symmetric_key_lifetime,
    )


def trusted_peers(security: SecuritySettings) -> TrustedPeers:
    """The addresses from which messages and acknowledgements are accepted without authentication."""
    said = security.unauthenticated
    return TrustedPeers(
        Unauthenticated.LOOPBACK if said is None else Unauthenticated(said),
        AddressSet(security.peers),
        AddressSet(security.acknowledgements_from),
    )


def access_control(
    configuration: Configuration, directory: IDirectory | None, clock: IClock
) -> AccessControl:
    """The access control that follows the documents, with the rules file and the accounts of the directory.

    @raise RulesError: the rules cannot be used.
    """
    accounts = None if directory is None else IAccounts(directory, None)
    access = AccessControl(accounts, clock, read_rules(configuration))
    watched = None if directory is None else IWatchedDirectory(directory, None)
    if watched is not None:
        watched.watch(access.forget)
    return access


def access_policy(
    security: SecuritySettings, documented: AccessControl, deciding: IAccessControl | None, clock: IClock
) -> AccessPolicy:
    """The access policy, with an access control of a plugin or an application if there is one."""
    owner = user_sid(os.getuid()) if security.owner is None else principal(security.owner, documented.rules)
    return AccessPolicy(
        documented if deciding is None else GuardedAccessControl(deciding, clock),
        owner,
        DefaultDescriptor(security.default_descriptor),
    )


def signing_policy(security: SecuritySettings) -> SigningPolicy:
    """Which signatures are accepted."""
    algorithms = {name: algorithm for algorithm, name in HASH_NAMES.items()}
    versions = {name: version for version, name in VERSION_NAMES.items()}
    return SigningPolicy(
        frozenset(algorithms[name] for name in security.hashes),
        security.smallest_key,
        frozenset(versions[name] for name in security.signatures),
        security.expired_certificates,
    )


def security_providers(configuration: Configuration) -> SecurityProviders:
    """The signature providers; the certificates are stored in the data directory."""
    security = configuration.security
    return SecurityProviders(
        signing=LibrarySigning(),
        certificates=FileCertificateStore(configuration.queue_manager.data / "certificates"),
        signing_policy=signing_policy(security),
        sender=user_sid(os.getuid()) if security.sender is None else parse_sid(security.sender),
        sends_sender=security.send_sender,
    )

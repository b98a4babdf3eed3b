"""Mapping of directory object attributes to LDAP classes and attributes. [MS-MQDSSM] 3.1.6.10."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from msmq.directory.ldap.entries import values
from msmq.directory.ldap.entries.values import Syntax
from msmq.membership.attributes import DirectoryObject, directory_attributes
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)

GUID: Final = "objectGUID"
SID: Final = "objectSid"
SECURITY: Final = "nTSecurityDescriptor"
SERVICE_TYPE: Final = "mSMQServiceType"
NAME_EXTENSION: Final = "mSMQQueueNameExt"

CREATED: Final = "create_time"
CHANGED: Final = "modify_time"


@attrs.frozen
class MappedAttribute:
    """An attribute of directory objects that maps to one LDAP attribute.

    @ivar attribute: its LDAP name.
    @ivar is_changeable: whether it can be written after the object was created.
    @ivar is_single: whether several values are an error.
    """

    attribute: str
    syntax: Syntax
    is_changeable: bool = True
    is_single: bool = True


@attrs.frozen
class ObjectClass:
    """The mapping of objects of one type.

    @ivar name: the LDAP class of its entries.
    @ivar columns: the mapped attributes, by their names in the object.
    @ivar links: attributes with identifiers of other objects, for which the entry has distinguished names.
    @ivar of_computer: attributes that are stored in the entry of the computer.
    @ivar required: an entry without one of these cannot be used.
    @ivar unsupported: attributes that an LDAP directory cannot store; requests with them are refused.
    @ivar is_created: whether objects of the type can be created and deleted.
    """

    name: str
    columns: Mapping[str, MappedAttribute]
    links: Mapping[str, str] = attrs.field(factory=dict)
    of_computer: Mapping[str, MappedAttribute] = attrs.field(factory=dict)
    required: frozenset[str] = frozenset()
    unsupported: frozenset[str] = frozenset()
    is_created: bool = True


_SECURITY: Final = MappedAttribute(SECURITY, values.OPAQUE)

CLASSES: Final[Mapping[type[DirectoryObject], ObjectClass]] = {
    QueueManagerObject: ObjectClass(
        "mSMQConfiguration",
        {
            "queue_manager_version": MappedAttribute("mSMQComputerTypeEx", values.TEXT),
            "operating_system_type": MappedAttribute("mSMQOSType", values.OPERATING_SYSTEM),
            "queue_manager_quota": MappedAttribute("mSMQQuota", values.UNSIGNED),
            "journal_quota": MappedAttribute("mSMQJournalQuota", values.UNSIGNED),
            "foreign_system": MappedAttribute("mSMQForeign", values.BOOLEAN),
            "site_identifier_list": MappedAttribute("mSMQSites", values.GUIDS, is_single=False),
            "routing_server": MappedAttribute("mSMQRoutingServices", values.BOOLEAN),
            "directory_server": MappedAttribute("mSMQDsServices", values.BOOLEAN),
            "supporting_server": MappedAttribute("mSMQDependentClientServices", values.BOOLEAN),
            "public_encryption_key_list": MappedAttribute("mSMQEncryptKey", values.KEYS),
            "public_signing_key_list": MappedAttribute("mSMQSignKey", values.KEYS),
            "security": _SECURITY,
        },
        links={
            "out_routing_server_identifier_list": "mSMQOutRoutingServers",
            "in_routing_server_identifier_list": "mSMQInRoutingServers",
        },
        of_computer={
            "qualified_computer_name": MappedAttribute("dNSHostName", values.TEXT),
            "operating_system_version": MappedAttribute("operatingSystemVersion", values.TEXT),
        },
        unsupported=frozenset({"connected_network_identifier_list"}),
    ),
    QueueObject: ObjectClass(
        "mSMQQueue",
        {
            "label": MappedAttribute("mSMQLabelEx", values.LABEL),
            "type": MappedAttribute("mSMQQueueType", values.GUID),
            "journaling": MappedAttribute("mSMQJournal", values.BOOLEAN),
            "quota": MappedAttribute("mSMQQueueQuota", values.UNSIGNED),
            "journal_quota": MappedAttribute("mSMQQueueJournalQuota", values.UNSIGNED),
            "authentication": MappedAttribute("mSMQAuthenticate", values.BOOLEAN),
            "privacy_level": MappedAttribute("mSMQPrivacyLevel", values.PRIVACY),
            "transactional": MappedAttribute("mSMQTransactional", values.BOOLEAN, is_changeable=False),
            "multicast_address": MappedAttribute("MSMQ-MulticastAddress", values.TEXT),
            "base_priority": MappedAttribute("mSMQBasePriority", values.SIGNED),
            "security": _SECURITY,
        },
    ),
    EnterpriseObject: ObjectClass(
        "mSMQEnterpriseSettings",
        {
            "weakened_security": MappedAttribute("mSMQNameStyle", values.BOOLEAN),
            "non_ldap_capable_queue_manager_notification": MappedAttribute("mSMQCSPName", values.YES_OR_NO),
            "default_time_to_live": MappedAttribute("mSMQLongLived", values.UNSIGNED),
            "old_directory": MappedAttribute("mSMQVersion", values.OLD_VERSION),
            "security": _SECURITY,
        },
        is_created=False,
    ),
    SiteObject: ObjectClass(
        "site",
        {
            "intra_site_replication_interval": MappedAttribute("mSMQInterval1", values.UNSIGNED),
            "inter_site_replication_interval": MappedAttribute("mSMQInterval2", values.UNSIGNED),
            "foreign_site": MappedAttribute("mSMQSiteForeign", values.BOOLEAN),
            "migrated_from_msmq10": MappedAttribute("mSMQNt4Stub", values.FLAG),
            "security": _SECURITY,
        },
        unsupported=frozenset({"primary_site_controller", "public_signing_key_list"}),
    ),
    RoutingLinkObject: ObjectClass(
        "mSMQSiteLink",
        {
            "description": MappedAttribute("description", values.TEXT, is_single=False),
            "actual_cost": MappedAttribute("mSMQCost", values.UNSIGNED),
        },
        links={
            "site1_identifier": "mSMQSite1",
            "site2_identifier": "mSMQSite2",
            "site_gate_identifier_list": "mSMQSiteGates",
        },
        required=frozenset({"actual_cost", "site1_identifier", "site2_identifier"}),
    ),
    UserObject: ObjectClass(
        "user",
        {
            "security_identifier": MappedAttribute(SID, values.BYTES, is_changeable=False),
            "certificate_digest_list": MappedAttribute("mSMQDigests", values.DIGESTS, is_single=False),
            "certificates": MappedAttribute("mSMQSignCertificates", values.CERTIFICATES),
        },
        required=frozenset({"security_identifier"}),
        is_created=False,
    ),
}
"""[MS-MQDSSM] 3.1.6.10; an LDAP directory does not store objects of other types."""

LINKED: Final[Mapping[str, type[DirectoryObject]]] = {
    "out_routing_server_identifier_list": QueueManagerObject,
    "in_routing_server_identifier_list": QueueManagerObject,
    "site1_identifier": SiteObject,
    "site2_identifier": SiteObject,
    "site_gate_identifier_list": QueueManagerObject,
}
"""The type of the objects that a link attribute refers to."""

OF_COMPUTER: Final = frozenset(
    {"qualified_computer_name", "operating_system_version", "clustered", "qualified_pathname"}
)
"""The attributes that require the entry of the computer."""

_SERVICE_BITS: Final = frozenset({"directory_server_type", "remote_access_server"})

COMPUTER_ATTRIBUTES: Final = (GUID, "dNSHostName", "operatingSystemVersion", "servicePrincipalName")


def ldap_attributes(
    of: type[DirectoryObject], wanted: Collection[str], times: Mapping[str, str]
) -> list[str]:
    """The LDAP attributes to read for the attributes of an object. [MS-MQDSSM] 3.1.6.10.

    @param times: the LDAP names of C{create_time} and C{modify_time}.
    """
    kept = CLASSES[of]
    found = {GUID}
    for name in wanted:
        if name in kept.columns:
            found.add(kept.columns[name].attribute)
        elif name in kept.links:
            found.add(kept.links[name])
        elif name in times:
            found.add(times[name])
        elif name in _SERVICE_BITS:
            found |= {SERVICE_TYPE, "mSMQDsServices"}
        elif name in ("pathname", "qualified_pathname"):
            found.add(NAME_EXTENSION)
    if "certificate_digest_list" in found_names(of, wanted):
        # The certificates are needed to sort the digests.
        found.add("mSMQSignCertificates")
    return sorted(found)


def found_names(of: type[DirectoryObject], wanted: Collection[str] | None) -> frozenset[str]:
    """The attributes that a read with these columns has to return."""
    return directory_attributes(of) if wanted is None else frozenset(wanted)

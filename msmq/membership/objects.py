"""Types of directory objects and their attributes. [MS-MQDMPR] 3.1.1.

An attribute has the name that the document gives it, in snake_case, and a default: that of the document, or
the one of [MS-MQDSSM] 3.1.6.11 for unset attributes.
C{None} means that an attribute has no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final
from uuid import UUID

import attrs

from msmq.membership.attributes import DirectoryObject, illegal
from msmq.membership.enumerations import DirectoryServerType, OperatingSystemType, QueueScope
from msmq.persistence.definition import LABEL_LENGTH, UNLIMITED, QueuePrivacy, QueueType
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.packet.base_header import TIME_TO_REACH_QUEUE
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

DEFAULT_TIME_TO_LIVE = TIME_TO_REACH_QUEUE
"""[MS-MQDMPR] note 12 and [MS-MQDSSM] note 13: default seconds to reach a queue."""


NO_KEYS: Final = MqdsPublicKeys()
NO_CERTIFICATES: Final = MqUserSignCerts()


@attrs.frozen(kw_only=True)
class QueueManagerObject(DirectoryObject):
    """QueueManager, published attributes only. [MS-MQDMPR] 3.1.1.1.

    @ivar queue_manager_version: empty, as late versions of Windows leave it.
    @ivar queue_manager_quota: of the messages in all queues; the document says bytes, but means kilobytes, as
        for every other quota. 0xFFFFFFFF for no limit.
    @ivar journal_quota: kilobytes in all journals.
    @ivar directory_server_type: C{None} if C{directory_server} is not set.
    @ivar security: the security descriptor, self-relative; not looked into.
    """

    TYPE: ClassVar[str] = "QueueManager"
    NAME: ClassVar[tuple[str, ...]] = ("computer_name",)

    computer_name: str = ""
    queue_manager_version: str = ""
    operating_system_version: str = ""
    operating_system_type: OperatingSystemType = OperatingSystemType.OTHER
    qualified_computer_name: str = ""
    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota: int = 0x00100000
    journal_quota: int = UNLIMITED
    foreign_system: bool = False
    full_path: str = ""
    site_identifier_list: tuple[UUID, ...] = ()
    connected_network_identifier_list: tuple[UUID, ...] = ()
    out_routing_server_identifier_list: tuple[UUID, ...] = ()
    in_routing_server_identifier_list: tuple[UUID, ...] = ()
    directory_server: bool = False
    remote_access_server: bool = False
    routing_server: bool = False
    supporting_server: bool = False
    directory_server_type: DirectoryServerType | None = None
    public_encryption_key_list: MqdsPublicKeys = NO_KEYS
    public_signing_key_list: MqdsPublicKeys = NO_KEYS
    security: bytes = attrs.field(default=b"", repr=False)
    clustered: bool = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.directory_server:
            object.__setattr__(self, "directory_server_type", None)


@attrs.frozen(kw_only=True)
class QueueObject(DirectoryObject):
    """Queue, with the defaults of Set Queue Defaults. [MS-MQDMPR] 3.1.1.2 and 3.1.7.1.33.

    @ivar pathname: with the name of the computer, C{ALPHA\\orders}.
    @ivar qualified_pathname: the same with the computer's fully qualified name.
    @ivar type: a GUID whose meaning only applications define.
    @ivar quota: kilobytes, 0xFFFFFFFF for no limit.
    @ivar multicast_address: C{234.1.1.1:8001} for example.
    @ivar security: the security descriptor, self-relative; not looked into.
    @ivar base_priority: -32768 to 32767.
    """

    TYPE: ClassVar[str] = "Queue"
    NAME: ClassVar[tuple[str, ...]] = ("pathname",)
    NOT_PUBLISHED: ClassVar[frozenset[str]] = frozenset({"private_queue_number", "scope", "queue_type"})
    RANGES: ClassVar[Mapping[str, tuple[int, int]]] = {"base_priority": (-0x8000, 0x7FFF)}

    label: str = ""
    create_time: int = 0
    modify_time: int = 0
    type: UUID = NULL_GUID
    pathname: str = ""
    qualified_pathname: str = ""
    private_queue_number: int = 0
    journaling: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    authentication: bool = False
    privacy_level: QueuePrivacy = QueuePrivacy.OPTIONAL
    transactional: bool = False
    multicast_address: str | None = None
    security: bytes = attrs.field(default=b"", repr=False)
    base_priority: int = 0
    full_path: str = ""
    directory_path: str = ""
    scope: QueueScope = QueueScope.ENTERPRISE
    queue_type: QueueType = QueueType.PUBLIC

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if len(self.label) > LABEL_LENGTH:
            raise MQError(
                Status.MQ_ERROR_LABEL_TOO_LONG,
                f"the label has {len(self.label)} characters; a queue takes at most {LABEL_LENGTH}",
            )


@attrs.frozen(kw_only=True)
class EnterpriseObject(DirectoryObject):
    """Enterprise; a directory holds one. [MS-MQDMPR] 3.1.1.6.

    @ivar weakened_security: queue managers use their own identity, not that of the application.
    @ivar non_ldap_capable_queue_manager_notification: [MS-MQCN] change notifications are sent.
    @ivar default_time_to_live: default time to reach a queue, in seconds.
    @ivar old_directory: the directory is one of MSMQ 1.0.
    """

    TYPE: ClassVar[str] = "Enterprise"

    name: str = ""
    weakened_security: bool = False
    non_ldap_capable_queue_manager_notification: bool = True
    default_time_to_live: int = DEFAULT_TIME_TO_LIVE
    old_directory: bool = False
    security: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class SiteObject(DirectoryObject):
    """Site. [MS-MQDMPR] 3.1.1.7.

    @ivar primary_site_controller: the NetBIOS name of a computer.
    @ivar intra_site_replication_interval: seconds.
    @ivar inter_site_replication_interval: seconds.
    """

    TYPE: ClassVar[str] = "Site"
    NAME: ClassVar[tuple[str, ...]] = ("name",)

    name: str = ""
    primary_site_controller: str = ""
    intra_site_replication_interval: int = 2
    inter_site_replication_interval: int = 10
    full_path: str = ""
    foreign_site: bool = False
    public_signing_key_list: MqdsPublicKeys = NO_KEYS
    migrated_from_msmq10: bool = False
    security: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class RoutingLinkObject(DirectoryObject):
    """RoutingLink. [MS-MQDMPR] 3.1.1.8.

    @ivar actual_cost: 1 to 999,999.
    """

    TYPE: ClassVar[str] = "RoutingLink"
    NAME: ClassVar[tuple[str, ...]] = ("site1_identifier", "site2_identifier")
    RANGES: ClassVar[Mapping[str, tuple[int, int]]] = {"actual_cost": (1, 999_999)}

    description: str = ""
    full_path: str = ""
    actual_cost: int = 1
    site1_identifier: UUID = NULL_GUID
    site2_identifier: UUID = NULL_GUID
    site_gate_identifier_list: tuple[UUID, ...] = ()


@attrs.frozen(kw_only=True)
class ConnectedNetworkObject(DirectoryObject):
    """ConnectedNetwork; directories that speak LDAP hold none ([MS-MQDSSM] 3.1.6.3). [MS-MQDMPR] 3.1.1.9."""

    TYPE: ClassVar[str] = "ConnectedNetwork"
    NAME: ClassVar[tuple[str, ...]] = ("name",)

    name: str = ""
    security: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class UserObject(DirectoryObject):
    """User. [MS-MQDMPR] 3.1.1.15.

    @ivar security_identifier: the SID, as bytes.
    @ivar certificate_digest_list: the MD5 of each certificate, sixteen bytes.
    @ivar full_path: [MS-MQDSSM] 3.1.1.4.
    """

    TYPE: ClassVar[str] = "User"
    NAME: ClassVar[tuple[str, ...]] = ("security_identifier",)

    security_identifier: bytes = b""
    certificate_digest_list: tuple[bytes, ...] = ()
    certificates: MqUserSignCerts = attrs.field(default=NO_CERTIFICATES, repr=False)
    full_path: str = ""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for digest in self.certificate_digest_list:
            if len(digest) != MqUserSignCert.DIGEST_SIZE:
                raise illegal(
                    UserObject, "certificate_digest_list", f"a digest of {len(digest)} bytes, not of 16"
                )


DIRECTORY_OBJECT_TYPES: tuple[type[DirectoryObject], ...] = (
    QueueManagerObject,
    QueueObject,
    EnterpriseObject,
    SiteObject,
    RoutingLinkObject,
    ConnectedNetworkObject,
    UserObject,
)
"""All types of directory objects."""

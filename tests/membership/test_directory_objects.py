"""The objects of a directory: their attributes, defaults and limits, and their serialization in the store."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.attributes import DirectoryObject, attributes_of_type, directory_attributes
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import (
    DirectoryError,
    DirectoryOperationResult,
    DirectoryServerType,
    OperatingSystemType,
    QueueManagerState,
    QueueScope,
    status_of,
)
from msmq.membership.object_json import StateDamaged, from_json, pack_object, to_json, unpack_object
from msmq.membership.objects import (
    DIRECTORY_OBJECT_TYPES,
    ConnectedNetworkObject,
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.persistence.definition import QueueDefinition, QueuePrivacy, QueueType
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import (
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts, digest_of
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

KEYS = MqdsPublicKeys((MqdsPublicKey(BASE_PROVIDER, ProviderType.PROV_RSA_FULL, PublicKeyBlob(0xC5, 65537)),))

QUEUE_MANAGER_ATTRIBUTES = """
    computer_name queue_manager_version operating_system_version operating_system_type
    qualified_computer_name create_time modify_time queue_manager_quota journal_quota foreign_system full_path
    site_identifier_list connected_network_identifier_list out_routing_server_identifier_list
    in_routing_server_identifier_list directory_server remote_access_server routing_server supporting_server
    directory_server_type public_encryption_key_list public_signing_key_list security clustered
"""


def values_of(kind: str) -> st.SearchStrategy[Any]:
    """Values for the attributes of one kind."""
    plain: dict[str, st.SearchStrategy[Any]] = {
        "a text": st.text(max_size=20),
        "a whole number": st.integers(1, 999),
        "true or false": st.booleans(),
        "a GUID": st.uuids(),
        "bytes": st.binary(max_size=20),
        "an MQDSPUBLICKEYS": st.sampled_from([MqdsPublicKeys(), KEYS]),
        "an MQUSERSIGNCERTS": st.just(MqUserSignCerts((MqUserSignCert.of(b"der", UUID(int=1)),))),
        "a tuple, each member a GUID": st.lists(st.uuids(), max_size=3).map(tuple),
        "a tuple, each member bytes": st.lists(st.binary(min_size=16, max_size=16), max_size=2).map(tuple),
        "one of OperatingSystemType": st.sampled_from(OperatingSystemType),
        "one of DirectoryServerType": st.sampled_from(DirectoryServerType),
        "one of QueuePrivacy": st.sampled_from(QueuePrivacy),
        "one of QueueType": st.sampled_from(QueueType),
        "one of QueueScope": st.sampled_from(QueueScope),
    }
    return plain[kind]


@st.composite
def directory_objects(draw: st.DrawFn) -> DirectoryObject:
    """Any object of any type."""
    of = draw(st.sampled_from(DIRECTORY_OBJECT_TYPES))
    return of(**{name: draw(values_of(row.kind.name)) for name, row in attributes_of_type(of).items()})


class AttributeTests(SynchronousTestCase):
    """Which attributes there are, and which of them a directory has."""

    def names(self, of: type[DirectoryObject], text: str) -> None:
        self.assertEqual(directory_attributes(of), {"identifier", *text.split()})

    def test_identifier(self) -> None:
        """MQDMPR-3.1.1-04: every element that can be published has a GUID for an Identifier."""
        types = {of.TYPE for of in DIRECTORY_OBJECT_TYPES}
        self.assertEqual(
            types, {"QueueManager", "Queue", "Enterprise", "Site", "RoutingLink", "ConnectedNetwork", "User"}
        )
        for of in DIRECTORY_OBJECT_TYPES:
            self.assertIn("identifier", directory_attributes(of))
            self.assertEqual(of(identifier=UUID(int=7)).identifier, UUID(int=7))
            self.assertRaises(MQError, of, identifier="7")
        outgoing = QueueDefinition(identifier=UUID(int=7), path="DIRECT=OS:beta\\q", type=QueueType.OUTGOING)
        self.assertEqual(outgoing.identifier, UUID(int=7))

    def test_queue_manager(self) -> None:
        """MQDMPR-3.1.1.1-01: the 24 Directory attributes of a queue manager, and its Identifier."""
        self.names(QueueManagerObject, QUEUE_MANAGER_ATTRIBUTES)
        self.assertEqual(len(QUEUE_MANAGER_ATTRIBUTES.split()), 24)

    def test_public_queue(self) -> None:
        """A public queue publishes Label to DirectoryPath; not its number, which only private ones have."""
        self.names(
            QueueObject,
            "label create_time modify_time type pathname qualified_pathname journaling quota journal_quota"
            " authentication privacy_level transactional multicast_address security base_priority full_path"
            " directory_path",
        )

    def test_enterprise(self) -> None:
        """MQDMPR-3.1.1.6-01: all attributes of an enterprise are Directory attributes."""
        self.names(
            EnterpriseObject,
            "name weakened_security non_ldap_capable_queue_manager_notification default_time_to_live"
            " old_directory security",
        )

    def test_site(self) -> None:
        """MQDMPR-3.1.1.7-01: what a directory has of a site; its gates are not among it."""
        self.names(
            SiteObject,
            "name primary_site_controller intra_site_replication_interval inter_site_replication_interval"
            " full_path foreign_site public_signing_key_list migrated_from_msmq10 security",
        )

    def test_routing_link(self) -> None:
        """MQDMPR-3.1.1.8-01: what a directory has of a link: identifiers, and not what they refer to."""
        self.names(
            RoutingLinkObject,
            "description full_path actual_cost site1_identifier site2_identifier site_gate_identifier_list",
        )

    def test_connected_network(self) -> None:
        """MQDMPR-3.1.1.9-01: the name and the security descriptor of a network are Directory attributes."""
        self.names(ConnectedNetworkObject, "name security")

    def test_user(self) -> None:
        """MQDMPR-3.1.1.15-01: SID, digests and certificates of a user are Directory attributes."""
        self.names(UserObject, "security_identifier certificate_digest_list certificates full_path")
        certificates = MqUserSignCerts(
            (MqUserSignCert.of(b"first", UUID(int=1)), MqUserSignCert.of(b"second", UUID(int=2)))
        )
        user = UserObject(security_identifier=b"\1\0", certificates=certificates)
        again = unpack_object(UserObject, pack_object(user))
        self.assertEqual(again.certificates.certificates[1].certificate, b"second")


class DefaultTests(SynchronousTestCase):
    """Defaults of an object."""

    def test_queue_manager_quotas(self) -> None:
        """MQDMPR-3.1.1.1-09 MQDMPR-3.1.1.1-11: 0x00100000 for messages, no limit for journals."""
        fresh = QueueManagerObject()
        self.assertEqual((fresh.queue_manager_quota, fresh.journal_quota), (0x00100000, 0xFFFFFFFF))

    def test_any_quota_of_a_peer(self) -> None:
        """MQDMPR-3.1.1.1-10: the quota of an old queue manager, which is no limit, is taken as it is."""
        self.assertEqual(QueueManagerObject(queue_manager_quota=0xFFFFFFFF).queue_manager_quota, 0xFFFFFFFF)

    def test_queue_manager_lists(self) -> None:
        """MQDMPR-3.1.1.1-14 MQDMPR-3.1.1.1-15 MQDMPR-3.1.1.1-17: a fresh queue manager belongs nowhere."""
        fresh = QueueManagerObject()
        self.assertEqual(fresh.site_identifier_list, ())
        self.assertEqual(fresh.connected_network_identifier_list, ())
        self.assertEqual(fresh.out_routing_server_identifier_list, ())
        self.assertEqual(fresh.in_routing_server_identifier_list, ())

    def test_queue_manager_roles(self) -> None:
        """MQDMPR-3.1.1.1-12 MQDMPR-3.1.1.1-19: a new queue manager is not a foreign system."""
        fresh = QueueManagerObject()
        self.assertFalse(fresh.foreign_system or fresh.remote_access_server or fresh.supporting_server)

    def test_configured_roles(self) -> None:
        """MQDMPR-3.1.1.1-18: each role that is given is the one that is read."""
        for role in ("directory_server", "routing_server", "clustered"):
            given = DirectoryEntry(QueueManagerObject, {role: True}).object
            self.assertEqual((getattr(given, role), getattr(QueueManagerObject(), role)), (True, False))

    def test_unknown_operating_system(self) -> None:
        """A queue manager without an operating system has an unknown one."""
        self.assertIs(QueueManagerObject().operating_system_type, OperatingSystemType.OTHER)

    def test_version(self) -> None:
        """MQDMPR-3.1.1.1-05 MQDMPR-3.1.1.1-06: our version is empty, that of an old peer is kept as it is."""
        self.assertEqual(QueueManagerObject().queue_manager_version, "")
        version = "5.0 Build 2195 MSMQ 2.0 Build 645"
        self.assertEqual(
            unpack_object(
                QueueManagerObject, pack_object(QueueManagerObject(queue_manager_version=version))
            ).queue_manager_version,
            version,
        )

    def test_no_keys(self) -> None:
        """MQDMPR-3.1.1.1-22: the keys are MQDSPUBLICKEYS structures, empty at first."""
        fresh = QueueManagerObject()
        for keys in (fresh.public_encryption_key_list, fresh.public_signing_key_list):
            self.assertEqual(MqdsPublicKeys.from_bytes(keys.to_bytes()).keys, ())

    def test_keys_of_an_old_peer(self) -> None:
        """MQDMPR-3.1.3-13: a peer with two keys, without one for AES, is taken as it is."""
        two = MqdsPublicKeys(
            tuple(
                MqdsPublicKey(provider, ProviderType.PROV_RSA_FULL, PublicKeyBlob(0xC5, 65537))
                for provider in (BASE_PROVIDER, ENHANCED_PROVIDER)
            )
        )
        peer = QueueManagerObject(public_encryption_key_list=two, public_signing_key_list=two)
        again = unpack_object(QueueManagerObject, pack_object(peer))
        names = [key.provider_name for key in again.public_encryption_key_list.keys]
        self.assertEqual(names, [BASE_PROVIDER, ENHANCED_PROVIDER])

    def test_queue(self) -> None:
        """MQDMPR-3.1.7.1.33-01 MQDMPR-3.1.7.1.33-02 MQDMPR-3.1.7.1.33-03: the defaults of a queue."""
        queue = QueueObject()
        self.assertEqual((queue.label, queue.type, queue.multicast_address), ("", NULL_GUID, None))
        self.assertFalse(queue.journaling or queue.authentication or queue.transactional)
        self.assertEqual((queue.quota, queue.journal_quota), (0xFFFFFFFF, 0xFFFFFFFF))
        self.assertEqual(queue.base_priority, 0)
        self.assertIs(queue.privacy_level, QueuePrivacy.OPTIONAL)

    def test_scope(self) -> None:
        """MQDMPR-3.1.1.2-16 MQDMPR-3.1.1.2-17: Scope is Enterprise, may be Site, and is not published."""
        self.assertIs(QueueObject().scope, QueueScope.ENTERPRISE)
        self.assertEqual({scope.value for scope in QueueScope}, {"Site", "Enterprise"})
        self.assertNotIn("scope", DirectoryEntry.holding(QueueObject()).values)


class LimitTests(SynchronousTestCase):
    """Invalid values of attributes."""

    def refused(self, of: type[DirectoryObject], **attributes: Any) -> MQError:
        error: MQError = self.assertRaises(MQError, of, **attributes)
        return error

    def test_cost(self) -> None:
        """MQDMPR-3.1.1.8-02: the cost of a link is 1 to 999,999."""
        for cost in (0, 1_000_000, -1):
            error = self.refused(RoutingLinkObject, actual_cost=cost)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
            self.assertIn("RoutingLink.actual_cost", error.detail)
            self.assertIn(str(cost), error.detail)
        for cost in (1, 999_999):
            self.assertEqual(RoutingLinkObject(actual_cost=cost).actual_cost, cost)

    def test_digest(self) -> None:
        """MQDMPR-3.1.1.15-02: a digest is the sixteen bytes of an MD5, that of the certificate."""
        digest = digest_of(b"certificate")
        self.assertEqual(digest, hashlib.md5(b"certificate", usedforsecurity=False).digest())
        self.assertEqual(UserObject(certificate_digest_list=(digest,)).certificate_digest_list, (digest,))
        error = self.refused(UserObject, certificate_digest_list=(digest, b"short"))
        self.assertIn("5 bytes", error.detail)

    def test_operating_system_type(self) -> None:
        """MQDMPR-3.1.1.1-07: one of six, and nothing else."""
        names = {member.value for member in OperatingSystemType}
        self.assertEqual(names, {"Foreign", "Win95", "WinClient", "WinServer", "WinEnt", "Other"})
        for member in OperatingSystemType:
            held = QueueManagerObject(operating_system_type=member)
            self.assertIs(unpack_object(QueueManagerObject, pack_object(held)).operating_system_type, member)
        self.refused(QueueManagerObject, operating_system_type="BeOS")
        self.assertRaises(ValueError, unpack_object, QueueManagerObject, {"operating_system_type": "BeOS"})

    def test_directory_server_type(self) -> None:
        """MQDMPR-3.1.1.1-21: of four kinds, and nothing where there is no directory server."""
        self.assertEqual(
            {kind.value for kind in DirectoryServerType},
            {"Standalone", "BackupSiteController", "PrimarySiteController", "PrimaryEnterpriseController"},
        )
        kind = DirectoryServerType.PRIMARY_SITE_CONTROLLER
        server = QueueManagerObject(directory_server=True, directory_server_type=kind)
        self.assertIs(DirectoryEntry.holding(server).values["directory_server_type"], kind)
        self.refused(QueueManagerObject, directory_server=True, directory_server_type="Branch")
        former = attrs.evolve(server, directory_server=False)
        self.assertIsNone(former.directory_server_type)
        self.assertNotIn("directory_server_type", DirectoryEntry.holding(former).values)

    def test_queue_manager_state(self) -> None:
        """The four states of a queue manager have the names of the document."""
        self.assertEqual(
            [state.value for state in QueueManagerState], ["Stopped", "Initializing", "Ready", "Stopping"]
        )

    def test_label(self) -> None:
        """A label has 124 characters at most."""
        self.assertEqual(len(QueueObject(label="x" * 124).label), 124)
        self.assertEqual(self.refused(QueueObject, label="x" * 125).status, Status.MQ_ERROR_LABEL_TOO_LONG)

    def test_base_priority(self) -> None:
        """The base priority is a signed number of 16 bits (MQMQ-2.3.1.6-01)."""
        for priority in (-32768, 32767):
            self.assertEqual(QueueObject(base_priority=priority).base_priority, priority)
        self.assertEqual(QueueObject().base_priority, 0)
        self.refused(QueueObject, base_priority=32768)

    def test_wrong_kind(self) -> None:
        """A value of another kind is refused, with the name of the attribute."""
        for of, attributes in (
            (QueueObject, {"quota": "much"}),
            (QueueObject, {"quota": True}),
            (QueueObject, {"journaling": 1}),
            (QueueManagerObject, {"site_identifier_list": [UUID(int=1)]}),
            (QueueManagerObject, {"security": "none"}),
            (QueueManagerObject, {"create_time": 1 << 32}),
            (SiteObject, {"name": None}),
        ):
            [name] = attributes
            self.assertIn(f"{of.TYPE}.{name}", self.refused(of, **attributes).detail)


class ResultTests(SynchronousTestCase):
    """The result of a directory operation for an application."""

    def test_results(self) -> None:
        """MQDMPR-3.1.1.17-01: the seven results."""
        self.assertEqual(
            [result.value for result in DirectoryOperationResult],
            [
                "Success",
                "GenericError",
                "DirectoryNotConnected",
                "ObjectNotFound",
                "AttributeNotFound",
                "EndOfData",
                "ObjectAlreadyExists",
            ],
        )

    def test_error(self) -> None:
        """An error of a directory has its result, and its reason."""
        error = DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, "no such queue")
        self.assertEqual(str(error), "ObjectNotFound: no such queue")

    def test_statuses(self) -> None:
        """Each result has a status, and it depends on what the operation was about."""
        result = DirectoryOperationResult
        self.assertIs(status_of(result.SUCCESS), Status.MQ_OK)
        self.assertIs(status_of(result.DIRECTORY_NOT_CONNECTED), Status.MQ_ERROR_NO_DS)
        self.assertIs(status_of(result.OBJECT_ALREADY_EXISTS), Status.MQ_ERROR_QUEUE_EXISTS)
        self.assertIs(status_of(result.OBJECT_NOT_FOUND), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertIs(status_of(result.GENERIC_ERROR), Status.MQ_ERROR_DS_ERROR)
        missing = status_of(result.OBJECT_NOT_FOUND, of_queue_manager=True)
        self.assertIs(missing, Status.MQ_ERROR_MACHINE_NOT_FOUND)
        there = status_of(result.OBJECT_ALREADY_EXISTS, of_queue_manager=True)
        self.assertIs(there, Status.MQ_ERROR_MACHINE_EXISTS)


class EntryTests(SynchronousTestCase):
    """Results of a read."""

    def test_whole_object(self) -> None:
        """All that is published comes back; what is not set has its default."""
        queue = QueueObject(identifier=UUID(int=1), pathname="ALPHA\\q", quota=7)
        self.assertEqual(DirectoryEntry.holding(queue).object, queue)
        self.assertEqual(DirectoryEntry(QueueObject, {"quota": 7}).object, QueueObject(quota=7))

    def test_unread_attribute(self) -> None:
        """MQDMPR-3.1.7.1.20-03: all attributes are read, or those of a list, and then no others are there."""
        queue = QueueObject(identifier=UUID(int=1), label="orders", quota=7)
        whole = DirectoryEntry.holding(queue)
        self.assertEqual((whole["label"], whole["quota"], whole["type"]), ("orders", 7, NULL_GUID))
        self.assertIs(whole.only(None), whole)
        part = whole.only(("label",))
        self.assertEqual(part["label"], "orders")
        self.assertRaises(LocalProtocolError, part.__getitem__, "quota")
        self.assertRaises(LocalProtocolError, lambda: part.object)

    def test_onto(self) -> None:
        """Read attributes replace known ones; unread attributes, and those that are never published, stay."""
        known = QueueObject(label="old", quota=5, base_priority=3, private_queue_number=9)
        read = DirectoryEntry(QueueObject, {"label": "new"})
        self.assertEqual(read.onto(known), QueueObject(label="new", private_queue_number=9))
        part = read.only(("label",))
        self.assertEqual(part.onto(known), attrs.evolve(known, label="new"))

    def test_no_such_attribute(self) -> None:
        """A name that no directory holds is refused, wherever it is given."""
        entry = DirectoryEntry.holding(QueueObject())
        for call in (
            lambda: DirectoryEntry(QueueObject, {"colour": 1}),
            lambda: entry["queue_type"],
            lambda: entry.only(("colour",)),
            lambda: DirectoryEntry.holding(QueueObject(), ("scope",)),
            lambda: DirectoryEntry.holding(QueueObject(), ("colour",)),
        ):
            self.assertRaises(LocalProtocolError, call)

    def test_impossible_value(self) -> None:
        """A directory that holds what no queue can have is noticed when it is read."""
        self.assertRaises(MQError, DirectoryEntry, QueueObject, {"quota": -1})


class KeepingTests(SynchronousTestCase):
    """Serialization in the store."""

    @given(directory_objects())
    def test_any_object(self, kept: DirectoryObject) -> None:
        """An object comes back as it was."""
        packed = from_json("x", to_json(pack_object(kept)))
        self.assertEqual(unpack_object(type(kept), packed), kept)

    def test_json(self) -> None:
        """The same values are the same bytes in any order; what is no JSON is damage with a name."""
        self.assertEqual(to_json({"b": [1], "a": None}), b'{"a":null,"b":[1]}')
        for damaged in (b"{", b"", b"\xff"):
            error = self.assertRaises(StateDamaged, from_json, "the name", damaged)
            self.assertEqual(error.name, "the name")
            self.assertIn("the stored value the name is damaged: ", str(error))

    def test_missing_attribute(self) -> None:
        """An attribute that an earlier version did not store has its default."""
        self.assertEqual(unpack_object(QueueObject, {"quota": 3}), QueueObject(quota=3))

    def test_damage(self) -> None:
        """An impossible stored value is refused, and named."""
        for packed, problem in (
            ([], "no Queue"),
            ({"colour": 1}, "colour"),
            ({"quota": -1}, "quota"),
            ({"type": "x"}, "type"),
            ({"type": 5}, "type"),
            ({"security": "?"}, "security"),
            ({"privacy_level": "much"}, "privacy_level"),
            ({"label": "x" * 125}, "label"),
        ):
            error = self.assertRaises(ValueError, unpack_object, QueueObject, packed)
            self.assertIn(problem, str(error))
        for of, values in (
            (QueueManagerObject, {"public_signing_key_list": "AAAA"}),
            (UserObject, {"certificates": "AAAA"}),
            (QueueManagerObject, {"site_identifier_list": [1]}),
        ):
            self.assertRaises(ValueError, unpack_object, of, values)

"""Effects on a queue when others change its object in the directory."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.membership.divergence import (
    MOST_DIFFERENCES,
    DirectoryChanges,
    has_other_keys,
    list_divergence,
    take_over_queue,
    take_over_queue_manager,
)
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.rights import SEND
from msmq.persistence.definition import UNLIMITED, QueuePrivacy
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import BASE_PROVIDER, MqdsPublicKey, MqdsPublicKeys, ProviderType
from msmq.windows.sddl import parse_sddl

KEEP, FOLLOW = DirectoryChanges.KEEP, DirectoryChanges.FOLLOW
VAULT = QueueObject(
    pathname="GAMMA\\vault",
    label="gold",
    authentication=True,
    journaling=True,
    privacy_level=QueuePrivacy.BODY,
    quota=100,
    journal_quota=100,
)
OURS, THEIRS = (
    MqdsPublicKeys((MqdsPublicKey(BASE_PROVIDER, ProviderType.PROV_RSA_FULL, PublicKeyBlob(0xC5, exponent)),))
    for exponent in (3, 65537)
)


def changed(changes: DirectoryChanges, **attributes: Any) -> tuple[dict[str, Any], list[str]]:
    """The attributes of the object that the queue adopts, and those that are reported."""
    taken, differences = take_over_queue(VAULT, attrs.evolve(VAULT, **attributes), changes)
    return {name: getattr(taken, name) for name in attributes}, [str(each) for each in differences]


class QueueTests(SynchronousTestCase):
    """A queue that demands signatures and encryption, with quotas and a journal."""

    def test_changes_that_weaken_protection(self) -> None:
        """It is kept out and reported, or taken over and reported, as the setting has it."""
        for name, there, shown, here in (
            ("authentication", False, "false", "true"),
            ("journaling", False, "false", "true"),
            ("privacy_level", QueuePrivacy.OPTIONAL, "optional", "body"),
            ("privacy_level", QueuePrivacy.NONE, "none", "body"),
            ("quota", 1, "1", "100"),
            ("journal_quota", 0, "0", "100"),
        ):
            told = f"{name} is {shown} in the directory; {here} stays in effect here"
            self.assertEqual(changed(KEEP, **{name: there}), ({name: getattr(VAULT, name)}, [told]))
            told = f"{name} is {shown} from now on, as in the directory; it was {here}"
            self.assertEqual(changed(FOLLOW, **{name: there}), ({name: there}, [told]))

    def test_what_does_not(self) -> None:
        """Other changes are taken over, and reported."""
        for name, there in (("label", "silver"), ("quota", UNLIMITED), ("base_priority", 3)):
            taken, told = changed(KEEP, **{name: there})
            self.assertEqual((taken, len(told)), ({name: there}, 1))
        plain = attrs.evolve(VAULT, authentication=False, privacy_level=QueuePrivacy.OPTIONAL)
        self.assertEqual(take_over_queue(plain, VAULT, KEEP)[0], VAULT)

    def test_its_identity(self) -> None:
        """An object that was moved, or is of another kind, changes nothing with either setting."""
        for changes in DirectoryChanges:
            taken, told = changed(changes, pathname="omega\\vault", transactional=True)
            self.assertEqual(taken, {"pathname": "GAMMA\\vault", "transactional": False})
            self.assertEqual(len(told), 2)
        self.assertEqual(changed(KEEP, pathname="gamma\\vault"), ({"pathname": "GAMMA\\vault"}, []))

    def test_what_the_directory_sets(self) -> None:
        """Times and paths are the directory's, and their changes are not reported."""
        found = {"modify_time": 5, "create_time": 3, "full_path": "cn=vault", "security": b"1"}
        self.assertEqual(changed(KEEP, **found), (found, []))


class QueueManagerTests(SynchronousTestCase):
    """The object of the queue manager itself."""

    def test_keys(self) -> None:
        """Foreign keys are never adopted; the first ones are those in the directory."""
        own = QueueManagerObject(public_encryption_key_list=OURS)
        found = attrs.evolve(own, public_encryption_key_list=THEIRS, routing_server=True)
        taken, differences = take_over_queue_manager(own, found)
        self.assertEqual((taken.public_encryption_key_list, taken.routing_server), (OURS, True))
        self.assertTrue(has_other_keys(differences))
        self.assertEqual([each.is_kept for each in differences], [False, True])
        taken, differences = take_over_queue_manager(QueueManagerObject(), found)
        self.assertEqual(taken.public_encryption_key_list, THEIRS)
        taken, differences = take_over_queue_manager(own, own)
        self.assertEqual((taken, differences, has_other_keys(differences)), (own, (), False))


class ListTests(SynchronousTestCase):
    """The list of a queue and the one of its object."""

    def test_differences(self) -> None:
        """Rights that the directory grants in addition come first; entries of administrators are not a
        difference.
        """
        own = parse_sddl("D:(D;;0x2;;;AN)(A;;0x4;;;BU)")
        admins = "(A;;GA;;;SY)(A;;GA;;;S-1-5-21-1-2-3-512)(A;ID;GA;;;S-1-5-21-1-2-3-1001)"
        same = parse_sddl(f"D:(OD;;CR;06bd3201-df3e-11d1-9c86-006008764d0e;;AN)(OA;;CR;{SEND};;BU){admins}")
        self.assertEqual(list_divergence(own, same), ())
        found = parse_sddl(f"D:(OA;;CR;{SEND};;WD)(A;;GA;;;AU){admins}")
        self.assertEqual(
            list_divergence(own, found),
            (
                "the directory allows every right to messages to authenticated users (S-1-5-11) by an entry"
                " without a right",
                "the directory allows send to everyone (S-1-1-0), and the list of the queue does not",
                "the list of the queue allows send to users (S-1-5-32-545), and the directory does not",
                "the list of the queue denies peek to anonymous (S-1-5-7), and the directory does not",
            ),
        )

    def test_many_differences_are_limited(self) -> None:
        """The first of very many differences are reported."""
        found = "".join(f"(OA;;CR;{SEND};;S-1-5-21-1-2-3-{rid})" for rid in range(100))
        self.assertEqual(len(list_divergence(parse_sddl("D:"), parse_sddl(f"D:{found}"))), MOST_DIFFERENCES)

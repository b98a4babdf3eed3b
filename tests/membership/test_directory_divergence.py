"""Effects on a queue when others change its object in the directory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

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
from msmq.membership.enumerations import OperatingSystemType
from msmq.membership.objects import NO_KEYS, QueueManagerObject, QueueObject
from msmq.membership.rights import PEEK, RECEIVE, RECEIVE_JOURNAL, SEND
from msmq.persistence.definition import UNLIMITED, QueuePrivacy
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import BASE_PROVIDER, MqdsPublicKey, MqdsPublicKeys, ProviderType
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor

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


def packed(list_of_rights: str) -> bytes:
    """A security descriptor in SDDL, as a directory holds it."""
    return parse_sddl(list_of_rights).to_bytes()


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
            reported = f"{name} is {shown} in the directory; {here} stays in effect here"
            self.assertEqual(changed(KEEP, **{name: there}), ({name: getattr(VAULT, name)}, [reported]))
            reported = f"{name} is {shown} from now on, as in the directory; it was {here}"
            self.assertEqual(changed(FOLLOW, **{name: there}), ({name: there}, [reported]))

    def test_what_does_not(self) -> None:
        """Other changes are taken over, and reported."""
        for name, there in (("label", "silver"), ("quota", UNLIMITED), ("base_priority", 3)):
            taken, reported = changed(KEEP, **{name: there})
            self.assertEqual((taken, len(reported)), ({name: there}, 1))
        plain = attrs.evolve(VAULT, authentication=False, privacy_level=QueuePrivacy.OPTIONAL)
        self.assertEqual(take_over_queue(plain, VAULT, KEEP)[0], VAULT)

    def test_privacy(self) -> None:
        """Only the demand for encryption is kept against the directory; other levels are the directory's."""
        for here in QueuePrivacy:
            for there in QueuePrivacy:
                held = attrs.evolve(VAULT, privacy_level=here)
                found = attrs.evolve(VAULT, privacy_level=there)
                taken, reported = take_over_queue(held, found, KEEP)
                self.assertIs(taken.privacy_level, here if here is QueuePrivacy.BODY else there)
                self.assertEqual(len(reported), here is not there)

    def test_quotas(self) -> None:
        """A quota is kept against a smaller one, and against no other."""
        for name in ("quota", "journal_quota"):
            for there, expected in ((99, 100), (100, 100), (101, 101), (0, 100)):
                self.assertEqual(changed(KEEP, **{name: there})[0], {name: expected})

    def test_how_values_are_reported(self) -> None:
        """Texts are reported in quotes, and no more than the first hundred characters of them."""
        long = "x" * 120
        _, differences = take_over_queue(VAULT, attrs.evolve(VAULT, label=long, base_priority=-7), FOLLOW)
        self.assertEqual(
            [(each.name, each.here, each.there, each.is_kept) for each in differences],
            [("label", '"gold"', f'"{long[:100]}"', False), ("base_priority", "0", "-7", False)],
        )

    def test_list_of_the_queue(self) -> None:
        """An object without any right to messages does not replace the list of a queue; that is reported."""
        ours, wider = (packed(f"D:(OA;;CR;{SEND};;{account})") for account in ("BU", "WD"))
        untranslated, none = packed("D:(A;;0x4;;;BU)"), packed("D:(A;;GA;;;SY)(A;;RP;;;WD)")
        reported = (
            "the list is without any right to messages in the directory; the list of the queue stays in"
            " effect here"
        )
        for here, there, expected in (
            (ours, none, ours),
            (untranslated, none, untranslated),
            (ours, b"damaged", ours),
            (ours, b"", ours),
            (ours, wider, wider),
            (ours, untranslated, untranslated),
            (none, b"", b""),
            (b"damaged", none, none),
            (none, wider, wider),
        ):
            held = attrs.evolve(VAULT, security=here)
            for changes in DirectoryChanges:
                taken, differences = take_over_queue(held, attrs.evolve(held, security=there), changes)
                self.assertEqual(taken.security, expected)
                is_kept = expected == here
                self.assertEqual([str(each) for each in differences], [reported] if is_kept else [])

    def test_its_identity(self) -> None:
        """An object that was moved, or is of another kind, changes nothing with either setting."""
        for changes in DirectoryChanges:
            taken, reported = changed(changes, pathname="omega\\vault", transactional=True)
            self.assertEqual(taken, {"pathname": "GAMMA\\vault", "transactional": False})
            self.assertEqual(
                reported,
                [
                    'pathname is "omega\\vault" in the directory; "GAMMA\\vault" stays in effect here',
                    "transactional is true in the directory; false stays in effect here",
                ],
            )
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

    def test_other_keys(self) -> None:
        """Other keys are distinguished from other differences, and from none."""
        own = QueueManagerObject(public_encryption_key_list=OURS, public_signing_key_list=OURS)
        for found, expected in (
            (attrs.evolve(own, routing_server=True), False),
            (attrs.evolve(own, public_signing_key_list=THEIRS), True),
            (attrs.evolve(own, public_encryption_key_list=NO_KEYS, routing_server=True), True),
        ):
            self.assertIs(has_other_keys(take_over_queue_manager(own, found)[1]), expected)

    def test_how_values_are_reported(self) -> None:
        """Keys are not shown; lists are, or that they are empty."""
        sites = (UUID(int=1), UUID(int=2))
        found = QueueManagerObject(
            site_identifier_list=sites,
            public_signing_key_list=THEIRS,
            operating_system_type=OperatingSystemType.WIN_ENT,
        )
        listed = f"{sites[0]}, {sites[1]}"
        for held, there, expected in (
            (
                QueueManagerObject(),
                found,
                {
                    "site_identifier_list": ("none", listed),
                    "public_signing_key_list": ("no key", "another list of keys"),
                    "operating_system_type": ("other", "win_ent"),
                },
            ),
            (
                found,
                QueueManagerObject(),
                {
                    "site_identifier_list": (listed, "none"),
                    "public_signing_key_list": ("another list of keys", "no key"),
                    "operating_system_type": ("win_ent", "other"),
                },
            ),
        ):
            _, differences = take_over_queue_manager(held, there)
            self.assertEqual({each.name: (each.here, each.there) for each in differences}, expected)


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

    def test_each_right(self) -> None:
        """Each right to messages is reported by its name, denials after what is allowed, and by account."""
        rights = ((RECEIVE, "receive"), (PEEK, "peek"), (SEND, "send"), (RECEIVE_JOURNAL, "receive-journal"))
        unlisted = "and the list of the queue does not"
        for right, word in rights:
            found = parse_sddl(f"D:(OD;;CR;{right};;WD)(OA;;CR;{right};;BU)(OA;;CR;{right};;WD)")
            self.assertEqual(
                list_divergence(parse_sddl("D:"), found),
                (
                    f"the directory allows {word} to everyone (S-1-1-0), {unlisted}",
                    f"the directory allows {word} to users (S-1-5-32-545), {unlisted}",
                    f"the directory denies {word} to everyone (S-1-1-0), {unlisted}",
                ),
            )

    def test_entries_without_a_right(self) -> None:
        """An entry for every right is reported unless it is inherited or an administrator's; a denial, and an
        entry for some rights to the object, are not.
        """
        domain = "S-1-5-21-1-2-3"
        for entry, is_reported in (
            ("(A;;GA;;;WD)", True),
            ("(A;;CR;;;WD)", True),
            ("(A;ID;GA;;;WD)", False),
            ("(A;CIIO;GA;;;WD)", False),
            ("(A;;RPWPRC;;;WD)", False),
            ("(D;;GA;;;WD)", False),
            (f"(OA;;CR;{SEND};;WD)", False),
            (f"(A;;GA;;;{domain}-513)", True),
            (f"(A;;GA;;;{domain}-512)", False),
            (f"(A;;GA;;;{domain}-519)", False),
            ("(A;;GA;;;S-1-5-32-512)", True),
            ("(A;;GA;;;SY)", False),
            ("(A;;GA;;;BA)", False),
        ):
            reported = [
                text
                for text in list_divergence(parse_sddl("D:"), parse_sddl(f"D:{entry}"))
                if text.startswith("the directory allows every right to messages to ")
            ]
            self.assertEqual(len(reported), is_reported, entry)
        self.assertEqual(list_divergence(parse_sddl("D:"), SecurityDescriptor()), ())
        # A right of the queue that no directory has is no difference.
        self.assertEqual(list_divergence(parse_sddl("D:(A;;0x1;;;WD)"), parse_sddl("D:")), ())

    def test_many_differences_are_limited(self) -> None:
        """The first of very many differences are reported."""
        found = "".join(f"(OA;;CR;{SEND};;S-1-5-21-1-2-3-{rid})" for rid in range(100))
        self.assertEqual(len(list_divergence(parse_sddl("D:"), parse_sddl(f"D:{found}"))), MOST_DIFFERENCES)

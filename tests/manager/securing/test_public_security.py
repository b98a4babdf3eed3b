"""The list of a public queue, which its queue manager and the directory both have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.security.access import Account
from msmq.manager.securing import public_security
from msmq.manager.securing.public_descriptors import LIFETIME, PublicDescriptors, published_list
from msmq.manager.securing.public_security import ATTEMPTS
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.objects import EnterpriseObject
from msmq.membership.rights import PEEK, RECEIVE, RECEIVE_JOURNAL, SEND
from msmq.structures.status import Status
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.well_known_sids import domain_of
from msmq.wire.sid import parse_sid
from tests.nodes.routes.test_public_queues import ORDERS, DirectoryTestCase
from tests.nodes.support import Node

ALICE = parse_sid("S-1-5-21-1-2-3-1001")
MACHINE = parse_sid("S-1-5-21-1-2-3-1501")
DOMAIN = domain_of(MACHINE)
CLASS = "(A;;0xf01ff;;;SY)(A;;0x20094;;;AU)"
"""What the class gives a queue, without the administrators of a domain."""


def may(right: UUID, sid: str, kind: str = "OA") -> str:
    """The entry of a directory for one right to messages."""
    return f"({kind};;0x100;{right};;{sid})"


def everything(sid: str) -> str:
    """The entries for all rights to messages."""
    return "".join(may(right, sid) for right in (RECEIVE, PEEK, SEND, RECEIVE_JOURNAL))


class PublicListTestCase(DirectoryTestCase):
    """GAMMA's public queues have lists here and in the directory."""

    changes: ClassVar[DirectoryChanges] = DirectoryChanges.KEEP

    def setUp(self) -> None:
        self.access = MemoryAccessControl()
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "GAMMA":
            kwargs["options"] = {
                "access": AccessPolicy(self.access, ALICE),
                "changes": self.changes,
            }
        return super().node(name, identifier, **kwargs)

    def say(self, body: bytes) -> None:
        self.send(self.alpha, "DIRECT=TCP:127.0.0.4\\orders", body)
        self.clock.advance(1)

    def write(self, sddl: str) -> None:
        """Another writer has changed the descriptor in the directory."""
        changed = attrs.evolve(self.published(), security=parse_sddl(sddl).to_bytes())
        self.successResultOf(self.directory.write(changed, ("security",)))
        self.clock.advance(LIFETIME)

    def there(self) -> str:
        """The descriptor that the directory has."""
        return format_sddl(SecurityDescriptor.from_bytes(self.published().security))

    def events(self, event: str) -> list[str]:
        self.clock.advance(1)
        stored = self.successResultOf(self.gamma.store.read_events(0, 1000))
        return [entry.event.reason for entry in stored if entry.event.event == event]

    def differences(self) -> list[str]:
        return list(self.service.inspection.status().directory_differences or ())


class BothTests(PublicListTestCase):
    """Both have to allow what is done with messages: others narrow a queue in the directory, and no more."""

    def test_the_right_to_write_of_the_directory(self) -> None:
        """MQQB-3.1.5.8.3-20: within a minute; until then the queue manager's own descriptor holds."""
        self.create()
        self.say(b"1")
        self.write(f"D:{CLASS}{may(SEND, 'S-1-5-21-1-2-3-1105')}")
        self.say(b"2")
        self.write(f"D:{CLASS}{may(SEND, 'AU')}{may(SEND, 'AN')}")
        self.say(b"3")
        # What the class gives every object says nothing about messages.
        self.write(f"D:{CLASS}")
        self.say(b"4")
        self.directory.is_connected = False
        self.clock.advance(LIFETIME)
        self.say(b"5")
        self.directory.is_connected = True
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1", b"3", b"4", b"5"])
        [reason] = self.events("refused")
        self.assertTrue(reason.endswith("or its groups, by its descriptor in the directory"), reason)

    def test_a_list_that_cannot_be_read_any_more(self) -> None:
        """The last list of the directory holds where its object is deleted or has no list, as for an account
        that may not read it: neither opens what the directory has closed.
        """
        self.create()
        closed = f"D:{CLASS}{may(SEND, 'AU')}"
        self.write(closed)
        self.say(b"1")
        published = self.published()
        hidden = attrs.evolve(published, security=b"")
        self.successResultOf(self.directory.write(hidden, ("security",)))
        self.clock.advance(LIFETIME)
        self.say(b"2")
        self.write(f"D:{CLASS}{may(SEND, 'AN')}")
        self.say(b"3")
        self.write(closed)
        self.say(b"4")
        self.successResultOf(self.directory.delete(published))
        self.clock.advance(LIFETIME)
        self.say(b"5")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"3"])
        self.restart(directory=self.directory)
        self.say(b"6")
        self.clock.advance(10)
        # Express messages are gone after a restart.
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])

    def test_a_wider_list_is_kept_out(self) -> None:
        """It opens nothing; event log, status and C{msmq acl} show the difference until it ends."""
        self.create(security="D:(A;;0xf;;;BA)")
        self.assertEqual(self.differences(), [])
        for text in (
            f"D:{CLASS}{everything('BA')}{may(SEND, 'WD')}",
            f"D:{CLASS}{everything('BA')}(A;;CR;;;WD)",
        ):
            self.write(text)
            self.say(b"1")
            self.say(b"2")
            self.assertEqual(self.bodies(self.gamma, ORDERS), [])
            [reported] = self.differences()
            self.assertRegex(reported, r"^\.\\orders: the directory allows .* to everyone")
            self.assertEqual(
                self.run_to_end(self.service.access.acl(ORDERS)).differences, [reported.split(": ")[1]]
            )
        self.assertEqual(len(self.events("directory_difference")), 2)
        self.write(f"D:{CLASS}{everything('BA')}")
        self.say(b"3")
        self.assertEqual(self.differences(), [])

    def test_a_list_that_is_gone(self) -> None:
        """Without one in the directory the queue's own list holds, and the difference is reported."""
        self.create(security="D:(A;;0x4;;;BA)")
        self.say(b"1")
        self.write(f"D:{CLASS}")
        self.say(b"2")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.assertIn("the list is without any right to messages", self.differences()[0])
        self.restart(directory=self.directory)
        self.say(b"3")
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.assertEqual(len(self.differences()), 1)

    def test_changes_of_operators_are_included(self) -> None:
        """And counts at once, here and there; while the directory is away nothing changes."""
        self.directory.set_object_sid("GAMMA", MACHINE)
        self.create()
        found = self.run_to_end(self.service.access.deny(ORDERS, "anonymous", ["send"]))
        own = "(A;;0xf003f;;;WD)(A;;0x20020;;;S-1-5-21-1-2-3-1501)"
        self.assertEqual(found.sddl, f"O:ANG:AND:(D;;0x4;;;AN){own}")
        # No account gets a right to the object: what the queue allows by default stays here.
        self.assertEqual(
            self.there(),
            f"D:{may(SEND, 'AN', 'OD')}(A;;0xf01ff;;;S-1-5-21-1-2-3-512){CLASS}{everything('WD')}",
        )
        self.say(b"1")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.assertEqual((self.differences(), self.events("directory_difference")), ([], []))
        self.directory.is_connected = False
        self.assertEqual(self.refused(self.service.access.revoke(ORDERS, "anonymous")), Status.MQ_ERROR_NO_DS)

    def test_entries_of_others(self) -> None:
        """A change keeps what administrators, the domain and auditors have written there."""
        self.create()
        others = "(A;;0x30;;;S-1-5-21-1-2-3-7)(A;CIID;0xf01ff;;;S-1-5-21-1-2-3-519)"
        self.write(f"O:BAG:BAD:AI{CLASS}{others}S:(AU;SA;0x20;;;WD)")
        self.run_to_end(self.service.access.allow(ORDERS, "users", ["send"]))
        self.run_to_end(self.service.access.revoke(ORDERS, "users"))
        first, inherited = others.split(")(")
        self.assertEqual(
            self.there(), f"O:BAG:BAD:AI{CLASS}{first}){everything('WD')}({inherited}S:(AU;SA;0x20;;;WD)"
        )

    def test_a_command_restores_its_entry(self) -> None:
        """An entry that is allowed again is written to the directory again, even if the local list has it."""
        self.create(security="D:(A;;0x4;;;BU)")
        self.write(f"D:{CLASS}{may(PEEK, 'BU')}")
        self.run_to_end(self.service.access.acl(ORDERS))
        self.assertEqual(len(self.differences()), 2)
        self.run_to_end(self.service.access.allow(ORDERS, "users", ["send"]))
        self.assertEqual(self.there(), f"D:{CLASS}{may(PEEK, 'BU')}{may(SEND, 'BU')}")
        self.run_to_end(self.service.access.revoke(ORDERS, "users"))
        self.assertEqual((self.there(), self.differences()), (f"D:{CLASS}", []))

    def test_values_over_the_limit_of_a_directory(self) -> None:
        """It is refused with the entry, and nothing changes here or there."""
        self.create(security="D:(A;;0x4;;;BU)")
        before = self.there()
        refused = self.service.access.allow(ORDERS, "guests", ["delete-message"])
        self.assertEqual(self.refused(refused), Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
        self.assertEqual(self.there(), before)
        self.assertEqual(self.run_to_end(self.service.access.acl(ORDERS)).sddl, "O:ANG:AND:(A;;0x4;;;BU)")
        creating = self.service.create_queue(".\\bills", security="D:(A;;0x1;;;BU)")
        self.assertEqual(self.refused(creating), Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)

    def test_made_with_a_descriptor(self) -> None:
        """A queue that is made with a list has it in the directory from the first moment on.

        What it gets by default is not written there.
        """
        self.create()
        self.assertEqual(self.published().security, b"")
        self.run_to_end(self.service.delete_queue(ORDERS))
        made = self.service.create_queue(ORDERS, security="O:BAD:(A;;0x4;;;AU)(A;;0x22;;;WD)")
        self.run_to_end(made)
        # All of it was asked for, so that rights to the object are there as well.
        self.assertEqual(self.there(), f"D:{CLASS}{may(SEND, 'AU')}{may(PEEK, 'WD')}(A;;0x10;;;WD)")
        self.say(b"1")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.directory.is_connected = False
        self.restart(directory=self.directory)
        self.say(b"2")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])

    def test_made_with_an_owner(self) -> None:
        """The owner is for the directory to set, so that an owner alone is not written there."""
        self.run_to_end(self.service.create_queue(ORDERS, security="O:BA"))
        self.assertEqual(self.published().security, b"")

    def test_made_while_the_directory_is_away(self) -> None:
        """Then there is no such queue, neither there nor here."""
        self.directory.is_connected = False
        making = self.service.create_queue(ORDERS, security="D:(A;;0x4;;;AU)")
        self.assertEqual(self.refused(making), Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.service.inspection.queues(), [])
        self.directory.is_connected = True
        self.assertFalse(self.is_published())

    def test_an_unreachable_directory_grants_nothing(self) -> None:
        """The last rights read from it hold meanwhile, and after a restart."""
        self.create()
        self.write(f"D:{CLASS}{may(SEND, 'AU')}")
        self.say(b"1")
        self.directory.is_connected = False
        for _ in range(2):
            self.clock.advance(LIFETIME)
            self.say(b"2")
        self.restart(directory=self.directory)
        self.say(b"3")
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.directory.is_connected = True
        self.write(f"D:{CLASS}{may(SEND, 'AN')}")
        self.clock.advance(LIFETIME)
        self.say(b"4")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"4"])

    def test_the_owner_of_the_directory(self) -> None:
        """The owner of an object is changed in the directory alone."""
        self.create()
        self.write(f"O:BAD:{CLASS}{may(SEND, 'AU')}")
        self.access.add(Account(ALICE, "alice"))
        alice = self.run_to_end(self.service.acting_as("alice"))
        self.assertEqual(self.refused(alice.take_ownership(ORDERS)), Status.MQ_ERROR_PROPERTY_NOTALLOWED)

    def test_an_answer_from_before_a_change(self) -> None:
        """It is used by the request that waited for it, and by no later one."""
        answers: list[Deferred[bytes]] = []

        def read(identifier: UUID) -> Deferred[bytes]:
            answers.append(Deferred())
            return answers[-1]

        public = PublicDescriptors(read, self.clock)
        identifier = UUID(int=1)
        before, after = (parse_sddl(f"D:{may(SEND, sid)}").to_bytes() for sid in ("WD", "AU"))
        asked = public.get(identifier)
        assert isinstance(asked, Deferred)
        public.forget(identifier)
        answers[0].callback(before)
        self.successResultOf(asked)
        again = public.get(identifier)
        assert isinstance(again, Deferred)
        answers[1].callback(after)
        self.assertEqual(self.successResultOf(again), published_list(after))
        self.assertEqual(public.get(identifier), published_list(after))

    def test_lists_of_deleted_queues(self) -> None:
        """They are remembered up to a limit, so that queues that come and go do not fill the memory."""
        self.patch(public_security, "MOST", 2)
        for _ in range(5):
            self.create(security="D:(A;;0x4;;;BU)")
            self.run_to_end(self.service.access.acl(ORDERS))
            self.run_to_end(self.service.delete_queue(ORDERS))
        descriptors = self.service._parts.security.descriptors
        assert descriptors is not None and descriptors._public is not None
        self.assertLessEqual(len(descriptors._public._seen), 2)

    def test_its_computer_may_look_at_it(self) -> None:
        """MQDMPR-3.1.7.1.3.1-06: the directory knows the SID of the computer."""
        self.directory.set_object_sid("GAMMA", MACHINE)
        self.create(".\\private$\\orders")
        found = self.run_to_end(self.service.access.acl(".\\private$\\orders"))
        self.assertEqual(found.sddl, "O:ANG:AND:(A;;0xf003f;;;WD)(A;;0x20020;;;S-1-5-21-1-2-3-1501)")

    def test_no_list_of_a_queue(self) -> None:
        """Missing and malformed lists, and lists without rights on messages, are ignored."""
        for security in (b"", b"rubbish", SecurityDescriptor(ALICE).to_bytes()):
            self.assertIsNone(published_list(security))
        self.assertIsNone(published_list(parse_sddl(f"D:{CLASS}").to_bytes()))
        self.assertIsNone(published_list(parse_sddl("D:(A;ID;0xf01ff;;;BA)").to_bytes()))


class EarlierVersionTests(PublicListTestCase):
    """Lists that an earlier version has written with the masks of MSMQ."""

    OWN = "(D;;0x4;;;AN)(A;;0xf003f;;;WD)"

    def test_written_again(self) -> None:
        """One that is the queue's own denies what it denies, and is written with rights of a directory."""
        self.directory.set_object_sid("GAMMA", MACHINE)
        self.create()
        self.run_to_end(self.service.delete_queue(ORDERS))
        self.run_to_end(self.service.create_queue(ORDERS, security=f"D:{self.OWN}"))
        self.write(f"D:{self.OWN}(A;CIID;0xf01ff;;;S-1-5-21-1-2-3-519)")
        self.say(b"1")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.assertEqual(
            self.there(),
            f"D:{may(SEND, 'AN', 'OD')}(A;;0xf01ff;;;S-1-5-21-1-2-3-512){CLASS}{everything('WD')}"
            "(A;CIID;0xf01ff;;;S-1-5-21-1-2-3-519)",
        )
        [reported] = self.events("directory_difference")
        self.assertIn("the masks of an earlier version", reported)
        self.say(b"2")
        self.assertEqual(self.differences(), [])

    def test_written_again_at_the_start(self) -> None:
        """A server that is started with this version does so before any message arrives."""
        self.run_to_end(self.service.create_queue(ORDERS, security=f"D:{self.OWN}"))
        self.write(f"D:{self.OWN}")
        self.directory.is_connected = False
        self.run_to_end(self.service.access.acl(ORDERS))
        self.directory.is_connected = True
        self.run_to_end(self.service.access.acl(ORDERS))
        self.write(f"D:{self.OWN}")
        self.restart(directory=self.directory)
        self.clock.advance(1)
        self.assertEqual(self.there(), f"D:{may(SEND, 'AN', 'OD')}{CLASS}{everything('WD')}")

    def test_another_list(self) -> None:
        """One that is not the queue's own allows no more than that, denies what it denies: reported."""
        self.run_to_end(self.service.create_queue(ORDERS, security="D:(A;;0x4;;;BU)(A;;0x4;;;AN)"))
        self.write("D:(A;;0xf003f;;;WD)")
        self.say(b"1")
        self.write("D:(D;;0x4;;;AN)(A;;0xf003f;;;WD)")
        self.say(b"2")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1"])
        self.assertIn("until msmq acl writes it again", self.differences()[0])
        self.run_to_end(self.service.access.deny(ORDERS, "guests", ["send"]))
        self.assertEqual(self.there(), f"D:{may(SEND, 'BG', 'OD')}{CLASS}{may(SEND, 'BU')}{may(SEND, 'AN')}")
        self.say(b"3")
        self.assertEqual((self.bodies(self.gamma, ORDERS), self.differences()), ([b"3"], []))


class ContestedDirectory(MemoryDirectory):
    """A directory in which other clients change an object immediately before a conditional write.

    @ivar others: the changes, one for each write.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.others: list[Callable[[], object]] = []

    def write_if_unchanged(self, *args: Any) -> Deferred[bool]:
        """See L{IConditionalDirectory.write_if_unchanged}."""
        if self.others:
            self.others.pop(0)()
        return super().write_if_unchanged(*args)


class ConcurrentChangeTests(PublicListTestCase):
    """Another administrator changes the list in the directory while C{msmq acl} does."""

    directory: ContestedDirectory

    def make_directory(self, **kwargs: Any) -> MemoryDirectory:
        directory = ContestedDirectory(self.clock, **kwargs)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        return directory

    def overwrite(self, sddl: str) -> None:
        changed = attrs.evolve(self.published(), security=parse_sddl(sddl).to_bytes())
        self.successResultOf(self.directory.write(changed, ("security",)))

    def test_both_changes_stay(self) -> None:
        """The change of the other administrator is not lost, nor is that of the command."""
        self.create(security="D:(A;;0x4;;;BU)")
        theirs = f"D:{CLASS}{may(PEEK, 'BG', 'OD')}{may(SEND, 'BU')}"
        self.directory.others = [lambda: self.overwrite(theirs)]
        self.run_to_end(self.service.access.allow(ORDERS, "administrators", ["send"]))
        self.assertEqual(self.there(), f"{theirs}{may(SEND, 'BA')}")

    def test_a_change_during_an_outage(self) -> None:
        """What others changed while the directory was away is not reset to what was known before."""
        self.create(security="D:(A;;0x4;;;BU)")
        self.directory.is_connected = False
        self.run_to_end(self.service.access.acl(ORDERS))
        self.clock.advance(LIFETIME)
        self.run_to_end(self.service.access.acl(ORDERS))
        self.directory.is_connected = True
        theirs = f"D:{CLASS}{may(PEEK, 'BG', 'OD')}{may(SEND, 'BU')}"
        self.overwrite(theirs)
        self.run_to_end(self.service.access.allow(ORDERS, "administrators", ["send"]))
        self.assertEqual(self.there(), f"{theirs}{may(SEND, 'BA')}")

    def test_endless_changes(self) -> None:
        """A command gives up after some attempts, and changes nothing here."""
        self.create(security="D:(A;;0x4;;;BU)")
        texts = [f"D:{CLASS}{may(SEND, f'S-1-5-21-1-2-3-{number}')}" for number in range(ATTEMPTS)]
        self.directory.others += [partial(self.overwrite, text) for text in texts]
        allowing = self.service.access.allow(ORDERS, "administrators", ["send"])
        self.assertEqual(self.refused(allowing), Status.MQ_ERROR_DS_ERROR)
        self.assertEqual(self.there(), texts[-1])
        found = self.run_to_end(self.service.access.acl(ORDERS))
        self.assertEqual(found.sddl, "O:ANG:AND:(A;;0x4;;;BU)")


class FollowTests(PublicListTestCase):
    """With the setting "follow" the directory alone decides."""

    changes = DirectoryChanges.FOLLOW

    def test_the_directory_decides(self) -> None:
        """Its list may be wider, and each change of it is an event."""
        self.create(security="D:(A;;0x4;;;BU)")
        self.say(b"1")
        self.write(f"D:{CLASS}{may(SEND, 'AN')}")
        self.say(b"2")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"2"])
        self.assertEqual(self.differences(), [])
        self.assertEqual(len(self.events("directory_change")), 1)
        found = self.run_to_end(self.service.access.acl(ORDERS))
        self.assertEqual(found.source, "its descriptor in the directory")
        self.assertEqual(found.sddl, "D:(A;;0xf003f;;;SY)(A;;0x20020;;;AU)(A;;0x4;;;AN)")

    def test_a_replacement_begins_with_the_present_list(self) -> None:
        """An entry that was removed in the directory a moment ago is there again if the new list has it."""
        self.create()
        self.write(f"D:{CLASS}{may(SEND, 'BU')}{may(SEND, 'BG')}")
        self.run_to_end(self.service.access.acl(ORDERS))
        removed = attrs.evolve(
            self.published(), security=parse_sddl(f"D:{CLASS}{may(SEND, 'BG')}").to_bytes()
        )
        self.successResultOf(self.directory.write(removed, ("security",)))
        self.run_to_end(self.service.access.replace(ORDERS, "D:(A;;0x4;;;BU)(A;;0x4;;;BG)"))
        self.assertIn(may(SEND, "BU"), self.there())

    def test_a_change_begins_with_its_list(self) -> None:
        """An operator changes what the directory has, and nothing else there."""
        self.create()
        self.write(f"O:BAD:{CLASS}{may(SEND, 'AN')}")
        found = self.run_to_end(self.service.access.allow(ORDERS, "users", ["peek"]))
        self.assertEqual(self.there(), f"O:BAD:{CLASS}{may(SEND, 'AN')}{may(PEEK, 'BU')}")
        self.assertEqual(found.owner, "administrators (S-1-5-32-544)")
        self.run_to_end(self.service.access.revoke(ORDERS, "users"))
        self.assertEqual(self.there(), f"O:BAD:{CLASS}{may(SEND, 'AN')}")

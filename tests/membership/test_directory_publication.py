"""What a queue manager writes to the directory at each start, and keeps in its store meanwhile."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.membership.initialization import KEYS, Provisioning, initialize
from msmq.membership.local import QUEUE_MANAGER
from msmq.membership.publication import publish_keys
from msmq.membership.requests import (
    AskDirectory,
    DirectoryEffect,
    MakeKeys,
    Outcome,
    QueueManagerChanged,
    QueueManagerKeys,
    Store,
    WriteObject,
)
from msmq.persistence.changes import PutState
from msmq.structures.directory.public_key_blob import KeyAlgorithm
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    DONE,
    FAILED,
    NOT_FOUND,
    NOW,
    access,
    found,
    play,
    replies,
)
from tests.membership.directory_machine import HOST, IN_LONDON, MachineTestCase, public_keys

MADE = QueueManagerKeys(
    public_keys(MakeKeys(KEYS), KeyAlgorithm.KEY_EXCHANGE),
    public_keys(MakeKeys(KEYS), KeyAlgorithm.SIGNATURE),
)
PUBLISHED = attrs.evolve(
    ALPHA, public_encryption_key_list=MADE.encryption, public_signing_key_list=MADE.signing
)


class KeyTests(SynchronousTestCase):
    """The public keys."""

    def test_other_keys(self) -> None:
        """Keys that the directory does not have are written, both lists of them, and then stored."""
        for own in (
            ALPHA,
            attrs.evolve(PUBLISHED, public_signing_key_list=MADE.encryption),
            attrs.evolve(PUBLISHED, public_encryption_key_list=MADE.signing),
        ):
            machine = access(own=own)
            outcome, played = play(publish_keys(machine, MADE), replies(DONE))
            self.assertTrue(outcome.succeeded)
            self.assertEqual(machine.local.object, PUBLISHED)
            [request] = played.requests
            assert isinstance(request, WriteObject) and request.attributes is not None
            self.assertEqual(
                (request.object, set(request.attributes)),
                (PUBLISHED, {"public_encryption_key_list", "public_signing_key_list"}),
            )
            self.assertEqual(played.of(Store), [Store([machine.local.object_change()])])

    def test_refused(self) -> None:
        """If the directory does not take them nothing has changed, and the caller has the reason."""
        for refusal in (FAILED, NOT_FOUND):
            machine = access()
            outcome, played = play(publish_keys(machine, MADE), replies(refusal))
            self.assertEqual(outcome, refusal)
            self.assertEqual((machine.local.object, played.of(Store)), (ALPHA, []))

    def test_the_same_keys(self) -> None:
        """Keys that the directory has are not written again."""
        outcome, played = play(publish_keys(access(own=PUBLISHED), MADE))
        self.assertEqual((outcome, played.effects), (Outcome(), []))


class IdentityTests(SynchronousTestCase):
    """The object that a queue manager becomes when it is provisioned."""

    def test_stored_before_it_is_written(self) -> None:
        """The object that is taken over is stored as soon as the rest of the queue manager has it, and before
        its keys are published: whatever fails later, the next start knows who it is.
        """
        machine = access()
        other = attrs.evolve(ALPHA, queue_manager_quota=77)
        seen: list[str] = []

        def reply(effect: DirectoryEffect) -> Outcome:
            seen.append(type(effect).__name__)
            if isinstance(effect, MakeKeys):
                return Outcome(value=MADE)
            if isinstance(effect, AskDirectory):
                return found(other) if seen.count("AskDirectory") == 1 else DISCONNECTED
            return Outcome(value=())

        failure = None
        try:
            play(initialize(machine, HOST, NOW, Provisioning()), reply)
        except Exception as error:
            failure = error
        self.assertIsNotNone(failure)
        self.assertEqual(
            seen,
            [
                "FindDirectoryServers",
                "MakeKeys",
                "AskDirectory",
                QueueManagerChanged.__name__,
                Store.__name__,
                "AskDirectory",
            ],
        )


class ServerListTests(MachineTestCase):
    """The list of directory servers."""

    def test_stored_when_it_changes(self) -> None:
        """The list is stored whenever it changes, and only then."""
        self.machine.start(integrated=True)
        self.furnish(IN_LONDON)
        self.initialize()
        record = "_ldap._tcp.dc._msdcs.example.com"
        expected: tuple[str, ...] = ()
        for servers, is_changed in ((["dc2"], True), (["dc2"], False), (["dc1"], True), ([], False)):
            self.machine.servers[record] = servers
            self.machine.clock.advance(24 * 3600)
            self.machine.performed.clear()
            self.expire()
            expected = tuple(dict.fromkeys((*expected, *servers)))
            local = self.machine.access.local
            self.assertEqual(local.directory_server_list, expected)
            stored = [
                change
                for effect in self.machine.performed
                if isinstance(effect, Store)
                for change in effect.changes
                if isinstance(change, PutState) and change.name != QUEUE_MANAGER
            ]
            self.assertEqual(stored, [local.settings_change()] if is_changed else [])

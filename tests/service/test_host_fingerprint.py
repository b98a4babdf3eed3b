"""Recognising a copied data directory, and the clone of a computer."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.data_directory.host_fingerprint import (
    HOST_NAME,
    HostFacts,
    check_clone,
    difference,
    host_facts,
    machine_fingerprint,
)
from msmq.service.data_directory.identity import identity_path, load_identity

HERE = HostFacts(7, 1000, "computer", ("card", "other card"))


class DifferenceTests(SynchronousTestCase):
    """L{difference}."""

    def test_same_place(self) -> None:
        """A restart, a changed card, another inode number alone, and facts that are unknown are no clone."""
        for now in (
            HERE,
            attrs.evolve(HERE, networks=("card", "new card")),
            attrs.evolve(HERE, networks=()),
            attrs.evolve(HERE, machine=""),
            attrs.evolve(HERE, inode=8),
            attrs.evolve(HERE, changed=2000),
        ):
            self.assertEqual((difference(HERE, now), difference(now, HERE)), ("", ""))

    def test_clones(self) -> None:
        """A copied directory, another computer, and a virtual machine with other cards are."""
        for now, words in (
            (attrs.evolve(HERE, inode=8, changed=2000), "copied"),
            (attrs.evolve(HERE, machine="another"), "another computer"),
            (attrs.evolve(HERE, networks=("cloned card",)), "network interfaces"),
        ):
            self.assertIn(words, difference(HERE, now))


class CheckTests(SynchronousTestCase):
    """L{check_clone} on real files."""

    def setUp(self) -> None:
        self.data = Path(self.mktemp())
        self.data.mkdir()
        load_identity(self.data)

    def suspicion(self, data: Path) -> str:
        return check_clone(identity_path(data)).suspicion

    def test_copy(self) -> None:
        """A copy of the directory is one at every start, until an operator decides; the original is not."""
        self.assertEqual([self.suspicion(self.data), self.suspicion(self.data)], ["", ""])
        copy = self.data.with_name("copy")
        shutil.copytree(self.data, copy)
        self.assertEqual([self.suspicion(copy) for _ in range(2)], ["the data directory was copied"] * 2)
        check_clone(identity_path(copy)).keep()
        self.assertEqual((self.suspicion(copy), self.suspicion(self.data)), ("", ""))

    def test_renamed(self) -> None:
        """A directory that is renamed is the original."""
        self.suspicion(self.data)
        self.data.rename(self.data.with_name("renamed"))
        self.assertEqual(self.suspicion(self.data.with_name("renamed")), "")

    def test_damaged_record(self) -> None:
        """A record that cannot be read is written anew."""
        infinite = b'{"inode": Infinity, "changed": 1, "machine": "", "networks": []}'
        for content in (b"", b"[]", b'{"inode": 1}', b"\xff", infinite, b"[" * 100_000):
            (self.data / HOST_NAME).write_bytes(content)
            self.assertEqual(self.suspicion(self.data), "")
            self.assertEqual(
                HostFacts.from_bytes((self.data / HOST_NAME).read_bytes()),
                host_facts(identity_path(self.data)),
            )

    def test_containers(self) -> None:
        """In a container only the directory counts; a computer without an identifier has no fingerprint."""
        facts = host_facts(identity_path(self.data), {"container": "podman"})
        self.assertEqual((facts.machine, facts.networks), ("", ()))
        empty = self.data / "machine-id"
        self.assertEqual(machine_fingerprint(empty), "")
        empty.write_text("\n")
        self.assertEqual(machine_fingerprint(empty), "")
        empty.write_text("0123\n")
        self.assertNotIn("0123", machine_fingerprint(empty))
        self.assertEqual(len(machine_fingerprint(empty)), 32)

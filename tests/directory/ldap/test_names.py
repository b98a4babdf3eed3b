"""Distinguished names, and the names of queues in them."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.names import (
    DistinguishedNameError,
    child,
    folded,
    is_within,
    link_name,
    name_hash,
    parent,
    queue_name,
    split,
    stored_queue_name,
    value_at,
)

values = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


class DistinguishedNameTests(SynchronousTestCase):
    """Values of distinguished names are returned unchanged."""

    @given(st.lists(values, min_size=1, max_size=5))
    def test_round_trip(self, parts: list[str]) -> None:
        """Every value round-trips, with any characters."""
        name = "DC=example"
        for part in reversed(parts):
            name = child(part, name)
        self.assertEqual(split(name), (*(("cn", part) for part in parts), ("dc", "example")))
        self.assertEqual(parent(name, len(parts)), "DC=example")

    def test_as_servers_write_them(self) -> None:
        """Blanks between parts, bytes in hexadecimal and other cases make no difference."""
        for name in ("cn=a\\2Cb, ou=x,dc=example", "CN=A\\,B,OU= X,DC=Example"):
            self.assertEqual(folded(name), "cn=a\\,b,ou=x,dc=example")
        self.assertEqual(value_at("CN=\\C3\\84mter,DC=x", 0), "Ämter")
        self.assertEqual(value_at("CN=a\\ ,DC=x", 0), "a ")
        self.assertEqual(value_at("CN=a\\\\ ,DC=x", 0), "a\\")
        self.assertEqual(value_at("CN=a,DC=x", 7), "")

    def test_within(self) -> None:
        """A name is within itself and what is above it, by whole parts; a malformed one is within nothing."""
        name = "OU=Berlin,DC=Example, DC=com"
        for above in ("dc=example,dc=COM", "DC=com", "OU=berlin,DC=example,DC=com"):
            self.assertTrue(is_within(name, above))
        for above in ("DC=ample,DC=com", "CN=x,OU=Berlin,DC=example,DC=com", "DC=org", "", "x"):
            self.assertFalse(is_within(name, above))

    def test_no_names(self) -> None:
        """Invalid names are reported."""
        for name in ("alpha", "CN=a,,DC=x", "=a", "CN=a+SN=b,DC=x", "CN=a\\", "CN=\\C3,DC=x"):
            self.assertRaises(DistinguishedNameError, split, name)


class QueueNameTests(SynchronousTestCase):
    """[MS-MQDSSM] 3.1.6.1.2.5: names that are too long are split."""

    def test_short(self) -> None:
        """Up to 63 characters stay as they are."""
        self.assertEqual(stored_queue_name("q" * 63), ("q" * 63, ""))

    def test_long(self) -> None:
        """A longer name keeps 55 characters, a hash of them all, and the rest elsewhere."""
        name = "q" * 55 + "and the rest"
        stored, rest = stored_queue_name(name)
        self.assertEqual((stored, rest), (f"{'q' * 55}-{name_hash(name)}", "and the rest"))
        self.assertEqual(len(stored), 64)

    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=124))
    def test_whole_again(self, name: str) -> None:
        """Both parts together are the name."""
        self.assertEqual(queue_name(*stored_queue_name(name)), name)

    def test_hash(self) -> None:
        """[MS-MQDSSM] 2.2.5: it has no case, and is that of the document's table, two bytes a character."""
        self.assertEqual(name_hash("Orders"), name_hash("oRDERS"))
        self.assertEqual(name_hash(""), "00000000")
        # One step with 0, whose entry is 0, and one with 1, whose entry the document prints.
        self.assertEqual(name_hash("\x01"), "82e0fe45")
        self.assertEqual(name_hash("\x02"), "3302dccd")

    def test_link(self) -> None:
        """A routing link is called by both its sites."""
        self.assertEqual(link_name(UUID(int=1), UUID(int=0xAB)), f"{'0' * 31}1{'0' * 30}ab")

"""[MS-MQMQ] 2.2.23 to 2.2.27: the rights, their numbers and their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.windows.access_masks import (
    CONNECTED_NETWORK_KIND,
    ENTERPRISE_KIND,
    QUEUE_KIND,
    QUEUE_MANAGER_KIND,
    SITE_KIND,
    AccessMask,
    ObjectKind,
)

GENERIC = (
    AccessMask.GENERIC_READ,
    AccessMask.GENERIC_WRITE,
    AccessMask.GENERIC_EXECUTE,
    AccessMask.GENERIC_ALL,
)


class MaskTests(SynchronousTestCase):
    """Each right of each object."""

    def same(self, kind: ObjectKind, rights: dict[str, int]) -> None:
        for name, mask in rights.items():
            self.assertEqual(int(kind.rights[name]), mask, name)
            self.assertEqual(int(kind.rights[kind.names(mask)]), mask)
        self.assertEqual(set(kind.rights.__members__), set(rights))
        self.assertEqual(kind.every_right, max(rights.values()))

    def generic(self, kind: ObjectKind) -> list[int]:
        return [kind.mapping.specific(int(right)) for right in GENERIC]

    def test_rights_to_a_queue_manager(self) -> None:
        """MQMQ-2.2.23-01, MQMQ-2.2.23-02, MQMQ-2.2.23-03, MQMQ-2.2.23-04."""
        self.same(
            QUEUE_MANAGER_KIND,
            {
                "MQSEC_DELETE_DEADLETTER_MESSAGE": 0x1,
                "MQSEC_PEEK_DEADLETTER_MESSAGE": 0x2,
                "MQSEC_CREATE_QUEUE": 0x4,
                "MQSEC_SET_MACHINE_PROPERTIES": 0x10,
                "MQSEC_GET_MACHINE_PROPERTIES": 0x20,
                "MQSEC_DELETE_JOURNAL_QUEUE_MESSAGE": 0x40,
                "MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE": 0x80,
                "MQSEC_DELETE_MACHINE": 0x10000,
                "MQSEC_GET_MACHINE_PERMISSIONS": 0x20000,
                "MQSEC_CHANGE_MACHINE_PERMISSIONS": 0x40000,
                "MQSEC_TAKE_MACHINE_OWNERSHIP": 0x80000,
                "MQSEC_RECEIVE_DEADLETTER_MESSAGE": 0x3,
                "MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE": 0xC0,
                "MQSEC_MACHINE_GENERIC_READ": 0x200E3,
                "MQSEC_MACHINE_GENERIC_WRITE": 0x20024,
                "MQSEC_MACHINE_GENERIC_ALL": 0xF00F7,
                "MQSEC_MACHINE_WORLD_RIGHTS": 0x20020,
            },
        )
        self.assertEqual(self.generic(QUEUE_MANAGER_KIND), [0x200E3, 0x20024, 0, 0xF00F7])

    def test_rights_to_a_queue(self) -> None:
        """MQMQ-2.2.24-01, MQMQ-2.2.24-02, MQMQ-2.2.24-03; both rights to receive include the peek."""
        self.same(
            QUEUE_KIND,
            {
                "MQSEC_DELETE_MESSAGE": 0x1,
                "MQSEC_PEEK_MESSAGE": 0x2,
                "MQSEC_WRITE_MESSAGE": 0x4,
                "MQSEC_DELETE_JOURNAL_MESSAGE": 0x8,
                "MQSEC_SET_QUEUE_PROPERTIES": 0x10,
                "MQSEC_GET_QUEUE_PROPERTIES": 0x20,
                "MQSEC_DELETE_QUEUE": 0x10000,
                "MQSEC_GET_QUEUE_PERMISSIONS": 0x20000,
                "MQSEC_CHANGE_QUEUE_PERMISSIONS": 0x40000,
                "MQSEC_TAKE_QUEUE_OWNERSHIP": 0x80000,
                "MQSEC_RECEIVE_MESSAGE": 0x3,
                "MQSEC_RECEIVE_JOURNAL_MESSAGE": 0xA,
                "MQSEC_QUEUE_GENERIC_READ": 0x2002B,
                "MQSEC_QUEUE_GENERIC_WRITE": 0x20024,
                "MQSEC_QUEUE_GENERIC_ALL": 0xF003F,
            },
        )
        self.assertEqual(self.generic(QUEUE_KIND), [0x2002B, 0x20024, 0, 0xF003F])

    def test_rights_to_a_site(self) -> None:
        """MQMQ-2.2.25-01, MQMQ-2.2.25-02, MQMQ-2.2.25-03."""
        self.same(
            SITE_KIND,
            {
                "MQSEC_CREATE_FRS": 0x1,
                "MQSEC_CREATE_BSC": 0x2,
                "MQSEC_CREATE_MACHINE": 0x4,
                "MQSEC_SET_SITE_PROPERTIES": 0x10,
                "MQSEC_GET_SITE_PROPERTIES": 0x20,
                "MQSEC_DELETE_SITE": 0x10000,
                "MQSEC_GET_SITE_PERMISSIONS": 0x20000,
                "MQSEC_CHANGE_SITE_PERMISSIONS": 0x40000,
                "MQSEC_TAKE_SITE_OWNERSHIP": 0x80000,
                "MQSEC_SITE_GENERIC_READ": 0x20020,
                "MQSEC_SITE_GENERIC_WRITE": 0x20024,
                "MQSEC_SITE_GENERIC_ALL": 0xF0037,
            },
        )
        self.assertEqual(self.generic(SITE_KIND), [0x20020, 0x20024, 0, 0xF0037])

    def test_rights_to_an_enterprise(self) -> None:
        """MQMQ-2.2.26-01, MQMQ-2.2.26-02, MQMQ-2.2.26-03."""
        self.same(
            ENTERPRISE_KIND,
            {
                "MQSEC_CREATE_USER": 0x1,
                "MQSEC_CREATE_SITE": 0x2,
                "MQSEC_CREATE_CN": 0x4,
                "MQSEC_SET_ENTERPRISE_PROPERTIES": 0x10,
                "MQSEC_GET_ENTERPRISE_PROPERTIES": 0x20,
                "MQSEC_DELETE_ENTERPRISE": 0x10000,
                "MQSEC_GET_ENTERPRISE_PERMISSIONS": 0x20000,
                "MQSEC_CHANGE_ENTERPRISE_PERMISSIONS": 0x40000,
                "MQSEC_TAKE_ENTERPRISE_OWNERSHIP": 0x80000,
                "MQSEC_ENTERPRISE_GENERIC_READ": 0x20021,
                "MQSEC_ENTERPRISE_GENERIC_WRITE": 0x20027,
                "MQSEC_ENTERPRISE_GENERIC_ALL": 0xF0037,
            },
        )
        self.assertEqual(self.generic(ENTERPRISE_KIND), [0x20021, 0x20027, 0, 0xF0037])

    def test_rights_to_a_connected_network(self) -> None:
        """MQMQ-2.2.27-01, MQMQ-2.2.27-02."""
        self.same(
            CONNECTED_NETWORK_KIND,
            {
                "MQSEC_CN_OPEN_CONNECTOR": 0x1,
                "MQSEC_SET_CN_PROPERTIES": 0x10,
                "MQSEC_GET_CN_PROPERTIES": 0x20,
                "MQSEC_DELETE_CN": 0x10000,
                "MQSEC_GET_CN_PERMISSIONS": 0x20000,
                "MQSEC_CHANGE_CN_PERMISSIONS": 0x40000,
                "MQSEC_TAKE_CN_OWNERSHIP": 0x80000,
                "MQSEC_CN_GENERIC_READ": 0x20020,
                "SEC_CN_GENERIC_ALL": 0xF0031,
            },
        )
        self.assertEqual(self.generic(CONNECTED_NETWORK_KIND), [0x20020, 0x20020, 0, 0xF0031])

    def test_a_mask_in_words(self) -> None:
        """A composite name if it covers the bits, otherwise single rights; unknown bits are a number."""
        for mask, words in (
            (0x6, "MQSEC_PEEK_MESSAGE | MQSEC_WRITE_MESSAGE"),
            (0x80000000, "MQSEC_QUEUE_GENERIC_READ"),
            (0x100104, "MQSEC_WRITE_MESSAGE | SYNCHRONIZE | 0x00000100"),
            (0x2000004, "MQSEC_WRITE_MESSAGE | MAXIMUM_ALLOWED"),
            (0, "0x00000000"),
        ):
            self.assertEqual(QUEUE_KIND.names(mask), words)

    def test_rights_by_their_short_names(self) -> None:
        """Each right is said by its own name, and not by those of its parts; several are said by theirs."""
        for kind in (QUEUE_KIND, QUEUE_MANAGER_KIND):
            for word, right in kind.words.items():
                self.assertEqual(kind.words_of(right), [word])
        for mask, words in (
            (0xB, ["receive", "receive-journal"]),
            (0xA, ["receive-journal"]),
            (0x9, ["delete-message", "delete-journal-message"]),
            (0xF, ["receive", "send", "receive-journal"]),
            (0x106, ["send", "peek", "0x100"]),
            (0, []),
        ):
            self.assertEqual(QUEUE_KIND.words_of(mask), words)

    @given(st.integers(0, 0xFFFFF))
    def test_short_names_say_the_whole_mask(self, mask: int) -> None:
        """The rights of the names are those of the mask, no more and no fewer."""
        said = 0
        for word in QUEUE_KIND.words_of(mask):
            said |= int(word, 16) if word.startswith("0x") else QUEUE_KIND.words[word]
        self.assertEqual(said, mask)

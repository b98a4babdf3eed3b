"""Kinds of attributes: which values they have, and what is stored of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.membership.attribute_kinds import BYTES, CERTIFICATES, GUID, PUBLIC_KEYS, kind_of
from msmq.membership.enumerations import QueueScope
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.directory.user_sign_certs import MqUserSignCerts

ONE = UUID(int=1)


class KindTests(SynchronousTestCase):
    """The kinds of all types of values."""

    def test_kinds(self) -> None:
        """Each kind has its name, its values, whether they have an order, and whether it is a list."""
        rows: tuple[tuple[Any, str, tuple[Any, ...], tuple[Any, ...], bool, bool], ...] = (
            (str, "a text", ("", "x"), (b"x", 1, None), True, False),
            (int, "a whole number", (0, -1), (True, 1.0, "1"), True, False),
            (bool, "true or false", (True, False), (0, 1, None), False, False),
            (UUID, "a GUID", (ONE,), (str(ONE), None), False, False),
            (bytes, "bytes", (b"",), ("", bytearray()), False, False),
            (MqdsPublicKeys, "an MQDSPUBLICKEYS", (MqdsPublicKeys(),), (b"", None), False, False),
            (MqUserSignCerts, "an MQUSERSIGNCERTS", (MqUserSignCerts(),), (b"", None), False, False),
            (QueueScope, "one of QueueScope", (QueueScope.SITE,), ("Site", None), False, False),
            (int | None, "a whole number", (0,), (True, None), True, False),
            (None | UUID, "a GUID", (ONE,), (None,), False, False),
            (
                tuple[UUID, ...],
                "a tuple, each member a GUID",
                ((), (ONE, ONE)),
                ([ONE], (ONE, "x"), (None,), ONE),
                False,
                True,
            ),
            (tuple[str, ...], "a tuple, each member a text", (("x",),), ("x", ["x"], (1,)), True, True),
        )
        for annotation, name, values, others, is_ordered, is_list in rows:
            kind = kind_of(annotation)
            self.assertEqual((kind.name, kind.is_ordered, kind.is_list), (name, is_ordered, is_list))
            self.assertTrue(all(map(kind.holds, values)), name)
            self.assertFalse(any(map(kind.holds, others)), name)

    def test_stored(self) -> None:
        """What is stored of a value is its JSON form, and yields it again."""
        for annotation, value, packed in (
            (str, "x", "x"),
            (int, 7, 7),
            (UUID, ONE, "00000000-0000-0000-0000-000000000001"),
            (bytes, b"\0\xff", "AP8="),
            (QueueScope, QueueScope.ENTERPRISE, "Enterprise"),
            (tuple[UUID, ...], (ONE,), ["00000000-0000-0000-0000-000000000001"]),
        ):
            kind = kind_of(annotation)
            self.assertEqual(kind.pack(value), packed)
            self.assertEqual(kind.unpack(packed), value)

    def test_damaged(self) -> None:
        """What no value is stored as is refused."""
        for kind, packed in (
            (PUBLIC_KEYS, "AAAA"),
            (PUBLIC_KEYS, "?"),
            (CERTIFICATES, "AAAA"),
            (CERTIFICATES, "?"),
            (GUID, "x"),
            (BYTES, "?"),
            (kind_of(QueueScope), "Galaxy"),
        ):
            self.assertRaises(ValueError, kind.unpack, packed)

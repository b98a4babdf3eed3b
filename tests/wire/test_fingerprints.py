"""Fingerprints of certificates, as an operator writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.wire.fingerprints import read_pins

FIRST, SECOND = "0123456789abcdef" * 4, "f" * 64


def with_colons(pin: str) -> str:
    """The form that C{openssl} prints."""
    return ":".join(pin[place : place + 2] for place in range(0, 64, 2)).upper()


class FingerprintTests(SynchronousTestCase):
    """L{read_pins}."""

    def test_one_fingerprint(self) -> None:
        """It may be written in either case, with colons or without, and with blanks around it."""
        for text in (FIRST, FIRST.upper(), with_colons(FIRST), f"  {FIRST}\t"):
            self.assertEqual(read_pins(text), {FIRST})

    def test_several_fingerprints(self) -> None:
        """They are separated by commas, in any forms; one that is repeated counts once."""
        self.assertEqual(read_pins(f"{FIRST},{SECOND}"), {FIRST, SECOND})
        self.assertEqual(read_pins(f"{with_colons(SECOND)} , {FIRST}, {with_colons(FIRST)}"), {FIRST, SECOND})

    def test_what_is_not_a_fingerprint(self) -> None:
        """64 hexadecimal digits are required; the error quotes the part that is wrong, and no other."""
        for wrong in (
            "",
            "sha1",
            FIRST[1:],
            FIRST + "0",
            FIRST[:40],
            FIRST[1:] + "g",
            "g" * 64,
            FIRST[:32] + " " + FIRST[33:],
            f"0x{FIRST[2:]}",
            "\u0661" * 64,
        ):
            for text in (wrong, f"{SECOND},{wrong}", f" {wrong} ,{SECOND}"):
                error = self.assertRaises(ValueError, read_pins, text)
                self.assertEqual(
                    str(error),
                    f"pins '{wrong}', which is not a SHA-256 fingerprint, 64 hexadecimal digits",
                )

    @given(st.frozensets(st.binary(min_size=32, max_size=32), min_size=1, max_size=4))
    def test_every_digest(self, digests: frozenset[bytes]) -> None:
        """The digest of any certificate can be pinned, in the form that C{openssl} prints."""
        pins = {digest.hex() for digest in digests}
        self.assertEqual(read_pins(",".join(map(with_colons, pins))), pins)

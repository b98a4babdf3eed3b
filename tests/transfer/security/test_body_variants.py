"""L{choose_body}: which clear body an encrypted one stands for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.security.body_variants import choose_body

BSTR, LPWSTR, BYTES = 8, 31, 0x1011
GREETING = "Grüße\tan\r\nalle\0".encode("utf-16-le")
SCATTERED = "aЖ中".encode("utf-16-le")
CONTROL = "a\x01".encode("utf-16-le")
UNASSIGNED = "a\u0378".encode("utf-16-le")
PRIVATE = "a\ue000".encode("utf-16-le")
CUT = b"a\0b"
LATIN = b"\xe4\xf6"


class ChooseBodyTests(SynchronousTestCase):
    def test_wide_text(self) -> None:
        """It has assigned characters only, and of several texts the one in the fewest blocks of Unicode."""
        for body_type in (BSTR, LPWSTR):
            for wrong in (CONTROL, UNASSIGNED, PRIVATE, CUT):
                self.assertEqual(choose_body(body_type, (wrong, GREETING)), GREETING)
                self.assertIsNone(choose_body(body_type, (wrong, CUT)))
            self.assertEqual(choose_body(body_type, (SCATTERED, GREETING)), GREETING)
            self.assertEqual(choose_body(body_type, (GREETING, SCATTERED)), GREETING)
            first, second = "ab".encode("utf-16-le"), "cd".encode("utf-16-le")
            self.assertEqual(choose_body(body_type, (first, second)), first)

    def test_other_bodies(self) -> None:
        """The first one in UTF-8, and without any the most likely one."""
        for body_type in (BYTES, 0):
            self.assertEqual(choose_body(body_type, (LATIN, b"<a/>", b"<b/>")), b"<a/>")
            self.assertEqual(choose_body(body_type, (LATIN, LATIN + b"x")), LATIN)

    def test_a_single_one(self) -> None:
        """It is not checked, whatever its type."""
        for body_type in (BSTR, LPWSTR, BYTES):
            for body in (CONTROL, LATIN, b""):
                self.assertEqual(choose_body(body_type, (body,)), body)

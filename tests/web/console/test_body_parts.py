"""The parts of large bodies that a page shows."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.web.console.pages.messages import beginning_of_text, indented_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class BodyPartTests(SynchronousTestCase):
    """Only as much of a body is decoded as is shown."""

    @given(st.text("ab é日😀", min_size=1), st.integers(1, 40))
    def test_text(self, text: str, characters: int) -> None:
        """The beginning of a text, also where the bytes end within a character."""
        body = text.encode() * (1 + 4 * characters // len(text.encode()))
        self.assertEqual(beginning_of_text(memoryview(body), characters), body.decode()[:characters])

    def test_binary(self) -> None:
        """Bytes that are no text, or have control characters, are none; what follows does not matter."""
        for body in (b"\xff" * 100, b"order\x00" * 100):
            self.assertIsNone(beginning_of_text(body, 10))
        self.assertEqual(beginning_of_text(b"x" * 40 + b"\xff", 10), "x" * 10)

    @given(VALUES, st.integers(1, 200))
    def test_json(self, value: object, characters: int) -> None:
        """The beginning is that of the whole."""
        whole = json.dumps(value, indent=2, ensure_ascii=False)
        self.assertEqual(indented_json(value, characters), whole[:characters])

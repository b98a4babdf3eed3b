"""Decodes the message bodies of several producers into plain data, and one body in a custom format.

Run it as C{.venv/bin/python examples/bodies.py}.
"""

from __future__ import annotations

from zope.interface import implementer

from msmq import Body, BodyDecoders, IBodyDecoder
from msmq.interfaces import BodyNotDecoded, DecodedBody, Limits


@implementer(IBodyDecoder)
class CommaSeparated:
    """Decoder of comma-separated text, under a BodyType that two applications agreed on."""

    name = "csv"

    def recognises(self, body: Body) -> bool:
        """See L{IBodyDecoder.recognises}."""
        return body.body_type == 0x101

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        """See L{IBodyDecoder.decode}."""
        try:
            cells = body.data.decode("ascii").split(",")
        except UnicodeDecodeError as error:
            raise BodyNotDecoded(f"is not CSV: {error.reason} at offset {error.start}") from error
        return DecodedBody(self.name, f"CSV of {len(cells)} cells", cells)


BODIES = (
    Body(b"<Order Urgent='true'><Id>7</Id><Line>nail</Line><Line>hammer</Line></Order>"),
    Body(b"\xff", body_type=11),
    Body(b'{"Id": 7}', extension=b'{"rbs2-msg-type": "Order"}'),
    Body(b'{"Id": ', extension=b'{"rbs2-msg-type": "Order"}'),
    Body(b"7,nail", body_type=0x101),
    Body(b"\x80\x81"),
)


def main() -> None:
    """Print the decoded body of each message."""
    decoders = BodyDecoders([CommaSeparated()])
    for body in BODIES:
        outcome = decoders.decode(body)
        if outcome.decoded is not None:
            print(outcome.decoded.reading, "->", outcome.decoded.value)
        if outcome.error:
            print("not read:", outcome.error)


if __name__ == "__main__":
    main()

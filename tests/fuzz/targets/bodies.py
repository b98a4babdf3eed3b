"""Message bodies of applications, as C{receive --decode} decodes them."""

from __future__ import annotations

import json
from typing import Final

from msmq.decoding.bodies.decoder_choice import BodyDecoders
from msmq.interfaces.decoding import Body, Limits
from tests.fuzz.finding import expect

LIMITS: Final = Limits(size=1 << 16, depth=50, items=10_000, characters=1 << 16)
DECODERS: Final = BodyDecoders(limits=LIMITS)
BODY_TYPES: Final = (0, 768, 8, 31, 72, 2, 3, 4, 5, 11, 13, 0x1013)


def bodies(data: bytes) -> None:
    """Any body is decoded to plain data or to a sentence with the reason.

    Three bytes say which decoder reads it, which type it has, and how much of the rest is the extension.
    """
    if len(data) < 3:
        return
    choice = DECODERS.names[data[0] % len(DECODERS.names)]
    body_type = BODY_TYPES[data[1] % len(BODY_TYPES)]
    end = len(data) - min(data[2], len(data) - 3)
    outcome = DECODERS.decode(Body(data[3:end], body_type, data[end:]), choice)
    expect(outcome.decoded is not None or outcome.error, "content, or why there is none")
    if outcome.decoded is not None:
        json.dumps(outcome.decoded.as_json()).encode("ascii")
    expect(outcome.error.isprintable(), "the reason is a sentence that a terminal can be given")

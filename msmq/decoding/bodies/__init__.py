"""Decoders of message bodies in the formats of applications, to plain data.

C{BodyDecoders().decode(Body(b"<Order><Id>7</Id></Order>")).decoded.value}
is C{{"Order": {"Id": "7"}}}.
"""

from msmq.decoding.bodies.decoder_choice import AUTO, BodyDecoders, DecodingOutcome, extension_headers
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

__all__ = [
    "AUTO",
    "Body",
    "BodyDecoders",
    "BodyNotDecoded",
    "DecodedBody",
    "DecodingOutcome",
    "IBodyDecoder",
    "Limits",
    "extension_headers",
]

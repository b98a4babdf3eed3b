"""Decoding of message bodies into columns, with all installed decoders.

Decoders are imported only when bodies are decoded: Spark workers start often, and rarely decode.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msmq.pipeline.rows import BodyReaders, Headers
from msmq.pipeline.stored_packets import text
from msmq.quoting import quoted
from msmq.structures.packet.user_message_view import UserMessageView

if TYPE_CHECKING:
    from msmq.decoding.bodies import Body, BodyDecoders

NONE = "none"
"""Option value: do not decode bodies."""


def installed_decoders() -> BodyDecoders:
    """The decoders of msmq and of installed plugins.

    @raise ValueError: two decoders have the same name.
    """
    from twisted.plugin import getPlugins

    from msmq.decoding.bodies import BodyDecoders, IBodyDecoder

    return BodyDecoders(getPlugins(IBodyDecoder))


def reading(choice: str, *, headers: bool = False) -> BodyReaders:
    """Select the body decoders for an option value.

    @param choice: C{auto}, the name of a decoder, or C{none}.
    @param headers: whether to read the headers in the extension.
    @raise ValueError: no decoder has this name, or two have the same; the text lists the decoders.
    """
    of_headers = _headers if headers else None
    if choice == NONE:
        return BodyReaders(headers=of_headers)
    decoders = installed_decoders()
    if choice not in decoders.names:
        raise ValueError(f"decode = {quoted(choice)} is not one of {', '.join((NONE, *decoders.names))}")

    def decode(view: UserMessageView) -> tuple[str | None, str | None]:
        outcome = decoders.decode(body_of(view), choice)
        decoded = outcome.decoded
        content = None if decoded is None else text(json.dumps(decoded.as_json(), ensure_ascii=False))
        return content, text(outcome.error) or None

    return BodyReaders(decode, of_headers)


def body_of(view: UserMessageView) -> Body:
    """Input of the body decoders, from a packet."""
    from msmq.decoding.bodies import Body

    return Body(bytes(view.body), view.body_type, bytes(view.extension))


def _headers(view: UserMessageView) -> Headers | None:
    from msmq.decoding.bodies import extension_headers

    found = extension_headers(bytes(view.extension))
    return None if found is None else [(text(key), value) for key, value in found]


__all__ = ["NONE", "body_of", "installed_decoders", "reading"]

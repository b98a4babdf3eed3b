"""Divides a message in JSON, as C{msmq receive --json} prints it, into properties and body to send again.

Server and client both read such documents.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from msmq.control.protocol.refusals import invalid
from msmq.quoting import quoted

JOURNEY_KEYS: Final = frozenset(
    "id lookup_id body_size class class_name sent_time arrived_time source_queue_manager destination_queue"
    " hops authenticated sender_id transaction abort_count move_count decoded decode_error report queue"
    " state reason".split()
)
"""Keys that queue managers set during transfer; they are dropped from a message to send."""


def divide_document(document: object) -> tuple[dict[str, Any], bytes | None]:
    """Divide a document into the properties that a sender chooses and the body; C{None} without a body.

    Null values are left out. The server checks the properties.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER if the document is not an object, or its body is not text or
        base64.
    """
    if not isinstance(document, Mapping):
        raise invalid(f"a message is a JSON object, not {quoted(document, 100)}")
    properties = {
        key: value for key, value in document.items() if key not in JOURNEY_KEYS and value is not None
    }
    text, encoded = properties.pop("body", None), properties.pop("body_base64", None)
    if text is not None and encoded is not None:
        raise invalid("a message has a body or a body_base64, not both")
    if text is not None:
        if not isinstance(text, str):
            raise invalid(f"body is text, not {quoted(text, 100)}")
        try:
            return properties, text.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid("body has lone surrogates, and is not UTF-8; use body_base64") from None
    return properties, None if encoded is None else decode_base64("body_base64", encoded)


def decode_base64(name: str, value: object) -> bytes:
    """Decode the base64 value of a key.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER if the value is not base64.
    """
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except ValueError:
        pass
    raise invalid(f"{name} is not base64")

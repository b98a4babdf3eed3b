"""Parameters of control API requests about certificates."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from msmq.control.protocol.refusals import invalid
from msmq.control.server.properties import flag, number, text
from msmq.quoting import quoted

DEFAULT: Final = "default"
"""In place of a fingerprint: the certificate that is signed with unless another is named."""

_NEW: Final = {"sid": text, "name": text, "days": number, "renew": flag}


def read_fingerprint(value: str) -> str:
    """What stands for a certificate in a path."""
    return "" if value == DEFAULT else value


def read_new_certificate(wanted: Mapping[str, object]) -> dict[str, Any]:
    """The arguments for one that is generated.

    @raise MQError: a property is unknown, or of another type.
    """
    arguments = {}
    for name, value in wanted.items():
        if name not in _NEW:
            raise invalid(f"a new certificate has no property {quoted(name)}; it has {', '.join(_NEW)}")
        arguments[name] = _NEW[name](name, value)
    return arguments


def read_import(wanted: Mapping[str, object]) -> dict[str, Any]:
    """The arguments for one that is in a file.

    @raise MQError: a property is unknown, or of another type.
    """
    rest = dict(wanted)
    try:
        data = base64.b64decode(text("file_base64", rest.pop("file_base64")), validate=True)
    except ValueError:
        raise invalid("file_base64 is not base64") from None
    password = rest.pop("password", None)
    sid = text("sid", rest.pop("sid", ""))
    if rest:
        raise invalid(f"an imported certificate has no property {quoted(next(iter(rest)))}")
    encoded = None if password is None else text("password", password).encode("utf-8", "surrogateescape")
    return {"data": data, "password": encoded, "sid": sid}

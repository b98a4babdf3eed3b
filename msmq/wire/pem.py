"""Private keys in PEM, as text. RFC 7468, and RFC 1421 for the older form."""

from __future__ import annotations

import re
from typing import Final

_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*?(ENCRYPTED )?PRIVATE KEY-----\r?\n(Proc-Type: 4,ENCRYPTED)?"
)


def needs_passphrase(data: bytes) -> bool:
    """Whether the first private key in PEM is encrypted.

    OpenSSL would ask for its passphrase at the terminal, and the process would wait for it.
    """
    found = _KEY.search(data)
    return found is not None and any(found.groups())

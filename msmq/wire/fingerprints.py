"""SHA-256 fingerprints of certificates, parsed from configuration text."""

from __future__ import annotations

from typing import Final

from msmq.quoting import quoted

_DIGITS: Final = 64


def read_pins(text: str) -> frozenset[str]:
    """Parse SHA-256 fingerprints, separated by commas, as C{openssl x509 -fingerprint -sha256} prints them.

    @raise ValueError: one of them is not a fingerprint.
    """
    pins = set()
    for part in text.split(","):
        pin = part.strip().replace(":", "").lower()
        if len(pin) != _DIGITS or set(pin) - set("0123456789abcdef"):
            raise ValueError(
                f"pins {quoted(part.strip())}, which is not a SHA-256 fingerprint, {_DIGITS}"
                f" hexadecimal digits"
            )
        pins.add(pin)
    return frozenset(pins)

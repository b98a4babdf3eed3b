"""Reserved names in the paths of the control API."""

from __future__ import annotations

from typing import Final

DEFAULT_CERTIFICATE: Final = "default"
"""Instead of a fingerprint: the certificate that is used for signing unless a sender names another."""

"""Descriptors of session factories in tests: many more than any test uses."""

from __future__ import annotations

from typing import Final

from msmq.session.descriptor_shares import DescriptorShares

SHARES: Final = DescriptorShares.of(65536)

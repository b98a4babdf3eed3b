"""Errors of reading: invalid options, lost data."""

from __future__ import annotations

from msmq.errors import MsmqError


class ReadingError(MsmqError):
    """The input cannot be read as requested; the text is the reason."""


class DataLost(ReadingError):
    """Requested rows no longer exist, and C{failOnDataLoss} is on."""

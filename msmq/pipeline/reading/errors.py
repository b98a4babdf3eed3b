"""Errors of reading: invalid options, lost data."""

from __future__ import annotations

from msmq.errors import MsmqError


class ReadingError(MsmqError):
    """It cannot be read as it is asked for; says in one line what is wrong, and names it."""


class DataLost(ReadingError):
    """What was to be read is gone, and C{failOnDataLoss} is on."""

"""How an await of a coroutine of an application may end without a result."""

from __future__ import annotations

import asyncio
from typing import Final

INTERRUPTIONS: Final = (Exception, asyncio.CancelledError)
"""Errors, among them the cancellations of Twisted, and those of asyncio, which are no C{Exception}.

What is undone after an error has to be undone after both.
"""

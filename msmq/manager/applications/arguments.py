"""Checks of the arguments with which applications call a queue manager of their own process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.open_queues import ITransaction
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.send_run import SendRun
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.quoting import kind_of

_LARGEST: Final = (1 << 63) - 1


def check_messages(messages: object, keys: object) -> None:
    """Check what is to be sent.

    @raise LocalProtocolError: C{messages} is not a sequence of L{Message}, or C{keys} not one of texts.
    """
    if not isinstance(messages, SendRun):
        _check_sequence("messages", messages, Message, "Message")
    if keys is not None:
        _check_sequence("keys", keys, str | None, "texts, or None for no key")


def check_limit(name: str, limit: int) -> None:
    """Check how many of something are requested at most.

    @raise LocalProtocolError: it is negative, which a store may take for no limit, or too large for a store.
    """
    if not 0 <= limit <= _LARGEST:
        raise LocalProtocolError(f"{name} is not from 0 to {_LARGEST}")


def check_read(count: object, timeout: object, size: object, after: object) -> None:
    """Check the limits of a read.

    @raise LocalProtocolError: one has another type, or C{timeout} is not a number of seconds.
    """
    for name, value in ("count", count), ("after", after):
        if not isinstance(value, int) or isinstance(value, bool):
            raise LocalProtocolError(f"{name} is {kind_of(value)}; it has to be an int")
        if value > _LARGEST:
            raise LocalProtocolError(f"{name} is above {_LARGEST}")
    if size is not None and not isinstance(size, int):
        raise LocalProtocolError(f"size is {kind_of(size)}; it has to be an int, or None for no limit")
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise LocalProtocolError(f"timeout is {kind_of(timeout)}; it has to be seconds, or None for no limit")
    try:
        seconds = float(timeout)
    except OverflowError:
        raise LocalProtocolError("timeout is too large; None is for no limit") from None
    if math.isnan(seconds):
        raise LocalProtocolError("timeout is nan; it has to be seconds, or None for no limit")


def check_transaction(transaction: object) -> None:
    """Check a transaction.

    @raise LocalProtocolError: it is neither C{None} nor what C{begin} of a queue manager returns.
    """
    if transaction is not None and not ITransaction.providedBy(transaction):
        raise LocalProtocolError(
            f"transaction is {kind_of(transaction)}; it has to be what begin() returns, or None"
        )


def check_opening(access: object, share_mode: object) -> None:
    """Check how a queue is opened.

    @raise LocalProtocolError: it is not an access mode, or not a share mode.
    """
    if not isinstance(access, QueueAccessType):
        raise LocalProtocolError(f"access is {kind_of(access)}; it has to be a QueueAccessType")
    if not isinstance(share_mode, QueueShareMode):
        raise LocalProtocolError(f"share_mode is {kind_of(share_mode)}; it has to be a QueueShareMode")


def _check_sequence(name: str, values: object, kind: object, words: str) -> None:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise LocalProtocolError(f"{name} is {kind_of(values)}; it has to be a list of {words}")
    for value in values:
        if not isinstance(value, kind):  # type: ignore[arg-type]
            raise LocalProtocolError(f"{name} has {kind_of(value)}; it has to be a list of {words}")

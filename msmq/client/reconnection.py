"""Reconnection: repeats a request while the server cannot be reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from msmq.client.arguments import check_seconds
from msmq.client.withdrawal import current_withdrawal, pause
from msmq.structures.status import MQError, Status

T = TypeVar("T")

_FIRST: Final = 0.1
_LONGEST: Final = 5.0

_REPEATED: Final = frozenset(
    # The second while the server still aborts the transaction of the lost connection.
    {Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION}
)


@attrs.frozen
class Reconnection:
    """When a request is repeated: after 0.1 s, and then after twice as long each time, up to 5 s.

    @ivar patience: seconds for which the server may be unreachable; 0 never repeats a request.
    """

    patience: float
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = pause

    def __attrs_post_init__(self) -> None:
        check_seconds("reconnect", self.patience)

    def run(self, request: Callable[[], T], may_repeat: Callable[[], bool] = lambda: True) -> T:
        """Make a request, again if the connection fails and its caller still waits for it.

        @param request: may be made again at any time.
        @raise MQError: the last failure, when the patience has ended.
        """
        withdrawal = current_withdrawal()
        began: float | None = None
        delay = _FIRST
        while True:
            try:
                return request()
            except MQError as error:
                is_withdrawn = withdrawal is not None and withdrawal.is_withdrawn
                if error.status not in _REPEATED or not may_repeat() or is_withdrawn:
                    raise
                now = self.monotonic()
                began = now if began is None else began
                left = began + self.patience - now
                if left <= 0:
                    raise
                self.sleep(min(delay, left))
                if withdrawal is not None and withdrawal.is_withdrawn:
                    raise
            delay = min(2 * delay, _LONGEST)

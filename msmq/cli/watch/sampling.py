"""Taking samples of a server in a thread, so that a slow server does not hold up the screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from msmq.cli.watch.model import Sample
from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError

_ALARMS: Final = 1000
"""Limit on alarms about queues: that of the server."""

_REST: Final = 9
"""The pause after a sample, in durations of the sample: at most a tenth of the time is spent on samples."""


def take_sample(client: ControlClient) -> Sample:
    """Take a sample.

    @raise MQError: the server does not answer.
    """
    return Sample(
        time.monotonic(),
        time.time(),
        client.status(),
        client.queues(system=True),
        client.outgoing(),
        client.sessions(),
        client.alarms(_ALARMS),
    )


class Sampler:
    """Takes a sample again and again.

    The thread ends with the process: a server that never answers does not delay the end of the command.

    @ivar interval: seconds between two samples.
    """

    def __init__(
        self, client: ControlClient, interval: float, take: Callable[[Sample | MQError], None]
    ) -> None:
        """Create it.

        @param take: called in the thread with each sample, or with the reason why there is none.
        """
        self.interval = interval
        self._client = client
        self._take = take
        self._awake = threading.Event()
        self._ended = False

    def start(self) -> None:
        """Start the thread; the first sample is taken after the interval."""
        threading.Thread(target=self._run, name="sampling", daemon=True).start()

    def wake(self) -> None:
        """Take a sample now."""
        self._awake.set()

    def stop(self) -> None:
        """Take no further sample."""
        self._ended = True
        self._awake.set()

    def _run(self) -> None:
        taken = 0.0
        while not self._ended:
            self._awake.wait(max(self.interval, taken * _REST))
            self._awake.clear()
            if self._ended:
                return
            found: Sample | MQError
            began = time.monotonic()
            try:
                found = take_sample(self._client)
            except MQError as error:
                found = error
            taken = time.monotonic() - began
            self._take(found)

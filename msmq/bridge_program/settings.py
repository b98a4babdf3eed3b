"""Settings of a bridge that is a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from msmq.net.endpoints import StreamEndpoint
from msmq.service.settings import LogSettings

DATA: Final = "msmq-bridge-data"
"""The default data directory."""


@attrs.frozen(kw_only=True)
class BridgeConfiguration:
    """Settings of one process.

    @ivar name: of the bridge in trails, unique among bridges.
    @ivar data: the data directory, absolute: the lock, and addresses of requests.
    @ivar control: the socket of its API; C{None} for none.
    @ivar web: the endpoint of metrics, health and the API; C{None} for none.
    @ivar token_file: the tokens of callers of the web endpoint; C{None} for none.
    @ivar control_group: a group that may connect to the socket.
    @ivar control_servers: locations of the queue managers, by their names.
    @ivar routes: each has the name of its queue manager.
    """

    name: str
    data: Path
    control: Path | None
    web: StreamEndpoint | None
    token_file: Path | None
    control_group: str | None
    log: LogSettings
    control_servers: Mapping[str, str]
    routes: tuple[OutwardSettings | InwardSettings, ...]

"""Composition of the web endpoint of a server; imported only if C{[listen] web} is set."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.storage import IMessageStore
from msmq.manager.service import QueueManagerService
from msmq.web.console.application import make_console
from msmq.web.exposition import Exposition, Instruments
from msmq.web.readiness import Readiness, readiness
from msmq.web.site import CheckToken, WebSite


@attrs.frozen
class WebEndpoint:
    """The instruments of a server, and the web site that exports their measurements.

    The store is needed before a server is composed, the site after it.
    """

    instruments: Instruments

    @classmethod
    def around(cls, store: IMessageStore, reactor: IReactorTime) -> WebEndpoint:
        """Measure a store that is not open yet."""
        return cls(Instruments(store, reactor))

    @property
    def store(self) -> IMessageStore:
        """The measured store, to use instead of the original."""
        return self.instruments.store

    def site(
        self,
        manager: QueueManagerService,
        reactor: IReactorTime,
        *,
        check_token: CheckToken | None,
        check_page_token: CheckToken | None,
        windows_names: bool,
        reloads: Mapping[str, int],
    ) -> WebSite:
        """Create the site that serves metrics, health and console of a queue manager, running or not.

        @param check_token: as of L{WebSite}; so is C{check_page_token}.
        @param windows_names: as of L{Exposition}; so is C{reloads}.
        """
        inspection = manager.inspection
        exposition = Exposition(
            inspection, self.instruments, reactor, windows_names=windows_names, reloads=reloads
        )

        def current_readiness() -> Readiness:
            failed_at = self.instruments.store.failed_at
            since = None if failed_at is None else reactor.seconds() - failed_at
            return readiness(inspection.state, inspection.measurements, since)

        return WebSite(
            inspection,
            exposition,
            reactor,
            check_token,
            check_page_token,
            current_readiness,
            make_console(manager, reactor, current_readiness, zone=None),
        )

"""Composition of the web endpoint of a server; imported only if C{[listen] web} is set."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.storage import IMessageStore
from msmq.manager.administration.inspection import ManagerInspection
from msmq.web.exposition import Exposition, Instruments
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
        manager: ManagerInspection,
        reactor: IReactorTime,
        *,
        check_token: CheckToken | None,
        windows_names: bool,
        reloads: Mapping[str, int],
    ) -> WebSite:
        """Create the site that serves metrics and health of a queue manager, running or not.

        @param check_token: as of L{WebSite}.
        @param windows_names: as of L{Exposition}; so is C{reloads}.
        """
        exposition = Exposition(
            manager, self.instruments, reactor, windows_names=windows_names, reloads=reloads
        )
        return WebSite(manager, self.instruments, exposition, reactor, check_token)

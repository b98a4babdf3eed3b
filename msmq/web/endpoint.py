"""Composition of the web endpoint of a server; imported only if C{[listen] web} is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_urlsafe
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.plugin import getPlugins

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication
from msmq.control.server.alarms.manager_alarms import ManagerAlarm, server_alarms
from msmq.control.server.factory import ControlSite
from msmq.control.server.messages.json_records import json_record
from msmq.interfaces.archive import IArchive, NoArchive
from msmq.interfaces.bridges import IBridges, NoBridges
from msmq.interfaces.decoding import IBodyDecoder
from msmq.interfaces.shadows import IShadows, NoShadows
from msmq.manager.administration.metered_store import MeteredStore
from msmq.manager.service import QueueManagerService
from msmq.web.access.sessions import BrowserSessions
from msmq.web.access.web_access import WebAccess
from msmq.web.console.application import make_console
from msmq.web.console.member_explanations import MemberExplanations, member_client
from msmq.web.console.rendering import compile_templates
from msmq.web.exposition import Exposition, Instruments
from msmq.web.readiness import Readiness, SharedReadiness, readiness
from msmq.web.site import WebSite, make_root

_T = TypeVar("_T")


@attrs.frozen
class WebEndpoint:
    """The instruments of a server, and the web site that exports their measurements.

    The instruments are created before a server is composed, the site after it.
    """

    instruments: Instruments

    @classmethod
    def around(cls, store: MeteredStore) -> WebEndpoint:
        """Observe a store that is not open yet."""
        return cls(Instruments(store))

    @staticmethod
    def prepare() -> None:
        """Compile the pages of the console, and load the decoders of bodies; called in a thread."""
        compile_templates()
        tuple(getPlugins(IBodyDecoder))

    def site(
        self,
        manager: QueueManagerService,
        reactor: IReactorTime,
        *,
        control: ControlSite,
        tokens: TokenAuthentication | None,
        is_loopback: bool,
        anonymous: Callable[[], Role | None],
        windows_names: bool,
        members: Mapping[str, str],
        member_token_file: str | None,
        reloads: Mapping[str, int],
        bridges: IBridges | None = None,
        archive: IArchive | None = None,
        shadows: IShadows | None = None,
    ) -> WebSite:
        """Create the site that serves metrics, health and console of a queue manager, running or not.

        @param control: the control API, which it also serves.
        @param tokens: as of L{WebAccess}; so are C{is_loopback} and C{anonymous}.
        @param windows_names: as of L{Exposition}; so is C{reloads}.
        @param members: the control endpoints of other servers, by name.
        @param member_token_file: the file of the token with which the console asks them about a message;
            C{None} if it does not.
        @param bridges: the routes to other brokers; by default none.
        @param archive: the archive of the server; by default none.
        @param shadows: the shadows of queues; by default none.
        """
        inspection = manager.inspection
        routes: IBridges = NoBridges() if bridges is None else bridges
        archive = NoArchive() if archive is None else archive
        exposition = Exposition(
            inspection,
            self.instruments,
            reactor,
            windows_names=windows_names,
            reloads=reloads,
            bridges=routes,
            drains=manager.drains,
            archive=archive,
            shadows=NoShadows() if shadows is None else shadows,
            certificates=control.configuration.certificates,
            tokens=control.configuration.tokens,
        )

        def current_readiness(*, names_files: bool = True) -> Readiness:
            def alarms() -> Sequence[ManagerAlarm]:
                summary = archive.summary()
                if summary is not None and not names_files:
                    summary = attrs.evolve(summary, reason="the log has the reason")
                return server_alarms(
                    inspection.status(),
                    routes.summaries(),
                    summary,
                    control.configuration.certificates(),
                    control.configuration.tokens(),
                )

            return readiness(inspection.state, inspection.measurements, alarms)

        def details() -> Mapping[str, object]:
            directory = inspection.measurements.directory_status()
            return {"directory": None if directory is None else json_record(directory)}

        sessions = BrowserSessions(lambda: token_urlsafe(32), reactor.seconds)
        access = WebAccess(tokens, sessions, reactor, is_loopback=is_loopback, anonymous=anonymous)
        console = make_console(
            manager,
            reactor,
            current_readiness,
            inspection.now,
            routes,
            archive,
            access,
            configuration=control.configuration,
            evaluations=control.evaluations,
            members=MemberExplanations(
                members,
                None if member_token_file is None else partial(member_client, member_token_file),
                partial(_in_thread, reactor),
            ),
            zone=None,
        )
        root = make_root(
            access,
            metrics=exposition,
            # Remote requests for it need no token.
            readiness=SharedReadiness(
                partial(current_readiness, names_files=is_loopback),
                lambda: (inspection.state, inspection.measurements.is_running),
                reactor.seconds,
            ).current,
            details=details,
            api=control.resource,
            console=console,
        )
        return WebSite(root, access, control, reactor, control.figures)


def _in_thread(reactor: IReactorTime, work: Callable[[], _T]) -> Deferred[_T]:
    threads = IReactorThreads(reactor)
    return deferToThreadPool(threads, threads.getThreadPool(), work)

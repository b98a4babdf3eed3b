"""API of a bridge that is a process of its own: C{/v1/bridges}, as of a queue manager with routes."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IReactorTime

from msmq.control.authentication.audit import Audit
from msmq.control.server.api import refuse_request, refuse_unknown
from msmq.control.server.api_site import ApiSite
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.bridges import BridgeResources
from msmq.control.server.resources.context import AnswerContext, make_tree
from msmq.control.server.role_check import RoleCheck
from msmq.interfaces.bridges import IBridges

CONNECTIONS: Final = 64
"""Limit on connections."""


def make_bridge_site(bridges: IBridges, clock: IReactorTime) -> ApiSite:
    """Create the HTTP factory of the API of a bridge.

    @param bridges: its routes.
    """
    limits = ControlLimits(connections=CONNECTIONS)
    # It has no event log: the log of the process has who has changed what.
    context = AnswerContext(limits, clock, Audit(_no_event))
    families = [BridgeResources(context, bridges)]
    api = make_tree(families, RoleCheck(clock).admit, refuse_unknown, refuse_request)
    return ApiSite(api.resource(), limits, clock)


def _no_event(*details: object, **more: object) -> None:
    """A bridge without an event log."""

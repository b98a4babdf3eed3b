"""Routes of the control API below C{/v1}. docs/control.md."""

from __future__ import annotations

from collections.abc import Iterable

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest

from msmq.control.authentication.audit import Audit
from msmq.control.protocol.refusals import (
    MethodNotAllowed,
    http_status,
    internal_error,
    no_such_resource,
    refusal,
)
from msmq.control.server.alarms.alarm_resources import AlarmResources
from msmq.control.server.http.answer_memory import AnswerMemory
from msmq.control.server.http.evaluation_shares import EvaluationShares
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.live.figures import LiveFigures
from msmq.control.server.resources.acl import AccessResources
from msmq.control.server.resources.bridges import BridgeResources
from msmq.control.server.resources.browsing import BrowsingResources
from msmq.control.server.resources.certificates import CertificateResources
from msmq.control.server.resources.configuration import ConfigurationResources
from msmq.control.server.resources.context import ResourceContext, ResourceFamily, make_tree
from msmq.control.server.resources.dead_letter_groups import DeadLetterGroups
from msmq.control.server.resources.deadletters import DeadLetterResources
from msmq.control.server.resources.description import DescriptionResources
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.resources.events import EventResources
from msmq.control.server.resources.live_stream import LiveResources
from msmq.control.server.resources.message_changes import MessageChangeResources
from msmq.control.server.resources.messages import MessageResources
from msmq.control.server.resources.outgoing import OutgoingResources
from msmq.control.server.resources.queues import QueueResources
from msmq.control.server.resources.send_receive import SendReceiveResources
from msmq.control.server.resources.server import ServerResources
from msmq.control.server.resources.services.archive import ArchiveResources
from msmq.control.server.resources.services.drains import DrainResources
from msmq.control.server.resources.services.shadows import ShadowResources
from msmq.control.server.resources.stored_rows import StoredRowResources
from msmq.control.server.resources.transactions import TransactionResources
from msmq.control.server.role_check import RoleCheck
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.shadows import IShadows
from msmq.interfaces.stored_rows import IStoredRows
from msmq.structures.status import MQError

_log = Logger()


def make_api(
    manager: IQueueManager,
    limits: ControlLimits,
    clock: IReactorTime,
    members: EstateMembers,
    configuration: ServerConfiguration,
    figures: LiveFigures,
    bridges: IBridges,
    shadows: IShadows,
    rows: IStoredRows,
    archive: IArchive,
    evaluations: EvaluationShares,
) -> Klein:
    """Build the routes of all resources; a refusal is an object with C{error} and C{detail}."""
    memory = AnswerMemory(limits.answer_memory, limits.answer_patience, clock)
    context = ResourceContext(limits, clock, Audit(manager.note), manager, memory, evaluations)
    families: list[ResourceFamily] = [
        ServerResources(context, members, archive, configuration),
        AlarmResources(context, bridges, archive, configuration),
        ConfigurationResources(context, configuration),
        QueueResources(context),
        BrowsingResources(context),
        MessageChangeResources(context),
        AccessResources(context),
        CertificateResources(context),
        OutgoingResources(context),
        MessageResources(context),
        EventResources(context),
        TransactionResources(context),
        DeadLetterGroups(context),
        DeadLetterResources(context),
        SendReceiveResources(context),
        LiveResources(context, figures),
        BridgeResources(context, bridges),
        DrainResources(context),
        ShadowResources(context, shadows),
        StoredRowResources(context, rows),
        ArchiveResources(context, archive),
    ]
    families.append(DescriptionResources(families, _describe))
    return make_tree(families, RoleCheck(clock).admit, refuse_unknown, refuse_request)


def _describe(families: Iterable[ResourceFamily]) -> object:
    # The schemas are made by the first request for them.
    from msmq.control.server.description.openapi import describe_api

    return describe_api(families)


def refuse_unknown(request: IRequest, failure: Failure) -> bytes:
    """Refuse an unknown path or method."""
    assert isinstance(request, ControlRequest)
    path = request.path.decode("utf-8", "replace")
    allowed = getattr(failure.value, "valid_methods", None)
    error = (
        no_such_resource(path)
        if allowed is None
        else MethodNotAllowed(request.method.decode("ascii", "replace"), path, allowed)
    )
    return _refusal_of(request, error)


def refuse_request(request: IRequest, failure: Failure) -> bytes | Deferred[None]:
    """Answer a refusal of the queue manager, or an internal error."""
    assert isinstance(request, ControlRequest)
    error = failure.value
    if not isinstance(error, MQError):
        _log.failure("A request to the control API failed", failure)
        error = internal_error()
    if request.startedWriting:
        # After the response has begun only an aborted connection reports a failure; it must not end normally.
        request.connection.abortConnection()
        return Deferred()
    return _refusal_of(request, error)


def _refusal_of(request: ControlRequest, error: MQError) -> bytes:
    if isinstance(error, MethodNotAllowed):
        request.responseHeaders.setRawHeaders("allow", [", ".join(error.allowed)])
    return json_answer(request, refusal(error), http_status(error))

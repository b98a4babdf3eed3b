"""Resources about open transactions: list, show, abort."""

from __future__ import annotations

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import guid
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.wire.guid import format_guid


class TransactionResources:
    """The open transactions of all applications."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager

    @app.route("/v1/transactions", methods=["GET"])
    async def transactions(self, request: ControlRequest) -> bytes | None:
        """All open transactions."""
        without_parameters(request)
        return await self._context.listed(request, self._manager.inspection.transactions())

    @app.route("/v1/transactions/<identifier>", methods=["GET"])
    def transaction(self, request: ControlRequest, identifier: str) -> bytes:
        """One transaction, with its messages."""
        without_parameters(request)
        found = self._manager.inspection.transaction(guid("the transaction", identifier))
        return json_answer(request, json_record(found))

    @app.route("/v1/transactions/<identifier>/abort", methods=["POST"])
    async def abort(self, request: ControlRequest, identifier: str) -> bytes:
        """Abort one transaction of any application."""
        without_parameters(request)
        transaction = guid("the transaction", identifier)
        await self._context.change(
            request,
            AuditedOperation("transaction abort", format_guid(transaction)),
            lambda: self._manager.abort_transaction(transaction),
        )
        return json_answer(request, {"aborted": format_guid(transaction)})

"""Resources about the archive of the server: state, erasure, compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.server.http.requests import ControlRequest, refuse_rest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, text
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.interfaces.archive import ErasedRows, IArchive, no_archive

_TARGET: Final = "archive"


@attrs.frozen
class _Erasure:
    rows: Sequence[ErasedRows]


class ArchiveResources:
    """The archive of the server."""

    app = Klein()

    def __init__(self, context: ResourceContext, archive: IArchive) -> None:
        self._context = context
        self._archive = archive

    @app.route("/v1/archive", methods=["GET"])
    def archive(self, request: ControlRequest) -> bytes:
        """The state of the archive."""
        without_parameters(request)
        summary = self._archive.summary()
        if summary is None:
            raise no_archive()
        return json_answer(request, json_record(summary))

    @app.route("/v1/archive/erase", methods=["POST"])
    async def erase(self, request: ControlRequest) -> bytes:
        """Erase the rows that fulfil C{where}, or count them; answers with their number by stream."""
        wanted = self._context.document(request)
        where = text("where", wanted.pop("where", None))
        is_rehearsal = flag("dry_run", wanted.pop("dry_run", False))
        refuse_rest(wanted, "where and dry_run")

        async def work() -> _Erasure:
            return _Erasure(await self._archive.erase(where, dry_run=is_rehearsal))

        # The condition has values of a person, perhaps, and is not recorded.
        operation = AuditedOperation("archive erase", _TARGET, {"dry_run": is_rehearsal})
        return await self._context.changed(request, operation, work)

    @app.route("/v1/archive/compact", methods=["POST"])
    async def compact(self, request: ControlRequest) -> bytes:
        """Write all rows as Parquet; answers with the state of the archive then."""
        without_parameters(request)

        async def work() -> object:
            return await self._archive.compact()

        return await self._context.changed(request, AuditedOperation("archive compact", _TARGET), work)

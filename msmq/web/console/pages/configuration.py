"""The configuration of the server: what is set, where, and what a reload would change."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

import attrs
from klein import Klein

from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.requests import parameters, refuse_rest
from msmq.control.server.messages.properties import flag
from msmq.control.server.resources.configuration import RELOAD
from msmq.control.server.server_configuration import (
    ConfigurationEntry,
    ConfigurationReport,
    ServerConfiguration,
)
from msmq.quantities import decimal
from msmq.web.access.request import WebRequest
from msmq.web.console.change_outcomes import ChangeOutcome
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import PageContext, page_parameters
from msmq.web.console.presentation import fingerprint

_PAGE: Final = "/configuration"


class ConfigurationPage:
    """The configuration, and its reload."""

    app = Klein()

    def __init__(self, context: PageContext, configuration: ServerConfiguration) -> None:
        self._context = context
        self._configuration = configuration

    @app.route("/configuration", methods=["GET"])
    async def configuration(self, request: WebRequest) -> bytes:
        """The keys that are set; with C{all} every key."""
        found = page_parameters(request)
        is_all = flag("all", found.pop("all", "false"))
        refuse_rest(found, "all")
        following = await self._configuration.read_again()
        await self._context.pause_for_more()
        report = self._configuration.report(following)
        await self._context.pause_for_more()
        listed = [each for each in report.entries if is_all or each.source or each.differs]
        tables = groupby(listed, key=lambda entry: entry.key.partition(".")[0])
        return await self._context.page(
            request,
            "configuration",
            report=report,
            tables=[(name, list(entries)) for name, entries in tables],
            entries={entry.key: entry for entry in report.entries},
            is_all=is_all,
            listed=len(listed),
            shown=_shown(report),
            text=value_text,
        )

    @app.route("/configuration/reload", methods=["POST"])
    async def reload(self, request: WebRequest) -> bytes:
        """Reload it, if the files still have what the page showed."""
        refuse_rest(parameters(request), "none")
        form = ChangeForm(request)
        shown = form.text("shown")
        form.end()

        async def reload() -> Mapping[str, Any]:
            following = await self._configuration.read_again()
            if _shown(self._configuration.report(following)) != shown:
                raise invalid(
                    "the files have changed since the page was loaded, and nothing is reloaded;"
                    " load the page again"
                )
            return self._configuration.reload()

        await self._context.change(request, RELOAD, reload)
        return self._context.redirect(request, ChangeOutcome("reloaded").address(_PAGE))


def value_text(value: object) -> str | None:
    """A value as the file of a configuration has it; C{None} without one."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {each}" for name, each in value.items()) or "none"
    return decimal(value) if isinstance(value, float) else str(value)


def _shown(report: ConfigurationReport) -> str:
    """A fingerprint of what a reload would do."""
    differing: list[ConfigurationEntry] = [entry for entry in report.entries if entry.differs]
    return fingerprint([attrs.asdict(report.reload), *map(attrs.asdict, differing)])

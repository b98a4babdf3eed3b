"""C{msmq transaction}: lists open transactions, commits and aborts them."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = ("identifier", "state", "began", "sent", "received", "moved")
_MESSAGES: Final = ("operation", "queue", "lookup_id", "id")


@click.group
@common_options
def transaction() -> None:
    """List, show and abort transactions."""


@transaction.command("list")
@common_options
@pass_settings
def transaction_list(settings: Settings) -> None:
    """List open transactions."""
    settings.output.many(settings.client.transactions(), _COLUMNS)
    settings.output.flush()


@transaction.command("show")
@click.argument("id")
@common_options
@pass_settings
def transaction_show(settings: Settings, id: str) -> None:
    """Show the transaction ID with its first thousand messages."""
    output = settings.output
    found = settings.client.transaction(id)
    if output.as_json:
        output.object(found)
    else:
        messages = found.pop("messages")
        output.one(found)
        output.table("messages", messages, _MESSAGES)
    output.flush()


@transaction.command("abort")
@click.argument("id")
@yes_option
@common_options
@pass_settings
def transaction_abort(settings: Settings, id: str, yes: bool) -> None:
    """Abort the transaction ID of any client.

    On a terminal the command asks for confirmation; transaction show shows what the transaction has done.
    """
    # Existing scripts do not have --yes.
    confirm(lambda: f"Abort transaction {id}", yes=yes, is_required=False)
    settings.output.one(settings.client.abort_transaction(id))
    settings.output.flush()

"""C{msmq acl}: access control of the queues of a queue manager."""

from __future__ import annotations

from typing import Any, Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = ("action", "principal", "rights", "inherited")


@click.group
@common_options
def acl() -> None:
    r"""Show, change and explain the access control of a queue.

    QUEUE is the path of a queue, as .\private$\orders, its format name, or . for the queue manager itself.
    PRINCIPAL is a SID, a well-known name (everyone, anonymous, authenticated users), one of the
    rules of the server, or that of an account of its directory. RIGHT is send, receive, peek, all and so on;
    an unknown one is refused with the list.
    """


@acl.command("show")
@click.argument("queue")
@common_options
@pass_settings
def acl_show(settings: Settings, queue: str) -> None:
    """Show the access control entries of QUEUE, in the order of their evaluation."""
    with settings.naming(queue):
        _show(settings, settings.client.acl(queue))


@acl.command("allow")
@click.argument("principal")
@click.argument("queue")
@click.argument("rights", metavar="RIGHT...", nargs=-1, required=True)
@common_options
@pass_settings
def acl_allow(settings: Settings, principal: str, queue: str, rights: tuple[str, ...]) -> None:
    """Allow RIGHT on QUEUE to PRINCIPAL, and show the new list."""
    with settings.naming(queue):
        _show(settings, settings.client.change_acl(queue, "allow", principal, rights))


@acl.command("deny")
@click.argument("principal")
@click.argument("queue")
@click.argument("rights", metavar="RIGHT...", nargs=-1, required=True)
@common_options
@pass_settings
def acl_deny(settings: Settings, principal: str, queue: str, rights: tuple[str, ...]) -> None:
    """Deny RIGHT on QUEUE to PRINCIPAL, and show the new list."""
    with settings.naming(queue):
        _show(settings, settings.client.change_acl(queue, "deny", principal, rights))


@acl.command("revoke")
@click.argument("principal")
@click.argument("queue")
@common_options
@pass_settings
def acl_revoke(settings: Settings, principal: str, queue: str) -> None:
    """Remove all entries of PRINCIPAL, and show the new list."""
    with settings.naming(queue):
        _show(settings, settings.client.change_acl(queue, "revoke", principal))


@acl.command("why")
@click.argument("principal")
@click.argument("queue")
@click.argument("right")
@common_options
@pass_settings
def acl_why(settings: Settings, principal: str, queue: str, right: str) -> None:
    """Show whether PRINCIPAL has RIGHT to QUEUE, and what decides it."""
    with settings.naming(queue):
        settings.output.one(settings.client.why(queue, principal, right))
    settings.output.flush()


def _show(settings: Settings, found: dict[str, Any]) -> None:
    output = settings.output
    if output.as_json:
        output.object(found)
    else:
        output.text(f"{found['queue']}, owner {found['owner'] or 'none'}, by {found['source']}")
        if found["everything"]:
            output.text("every account has every right")
        elif not found["entries"]:
            output.text("no account has any right")
        else:
            output.many([_row(entry) for entry in found["entries"]], _COLUMNS)
        for difference in found.get("differences", ()):
            output.text(f"difference: {difference}")
    output.flush()


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    rights = " ".join(entry["rights"])
    if "condition" in entry:
        rights += f", {entry['condition'] or 'with a condition that cannot be shown as text'}"
    return {
        "action": entry["action"],
        "principal": entry["name"] or "",
        "rights": rights,
        "inherited": entry.get("inherited", False),
    }

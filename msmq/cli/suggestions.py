"""Suggestions for misspelt options and verbs."""

from __future__ import annotations

import click

from msmq.spelling import closest


def usage_error(error: click.ClickException) -> str:
    """The text of an error of usage; a misspelt option or verb has a suggestion of the same command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return error.format_message()
    command = context.command
    if isinstance(error, click.NoSuchOption):
        word = error.option_name
        known = [name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)]
        known = [name for name in known if name.startswith("-")]
    elif isinstance(command, click.Group) and (name := getattr(error, "command_name", None)):
        word, known = name, command.list_commands(context)
    else:
        return error.format_message()
    meant = closest(word, known)
    return error.message if meant is None else f"{error.message.rstrip('.')}; did you mean {meant}?"

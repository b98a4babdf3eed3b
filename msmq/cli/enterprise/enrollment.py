"""C{msmq enterprise join, leave, role, site, link}: members of an enterprise in an LDAP directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import attrs
import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.standard_input import standard_input
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.directory.ldap.enrollment.enrollment import Enrollment
    from msmq.directory.ldap.enrollment.plan import EnrollmentStep
    from msmq.directory.ldap.settings import LdapSettings
    from msmq.service.settings import Configuration

_C = TypeVar("_C", bound=Callable[..., object])

_SCHEMES: Final = ("ldap:", "ldaps:")
_OWN_CREDENTIALS: Final = ("ca_file", "start_tls", "dialect")
"""The keys of C{[directory]} that also apply to an operator with other credentials."""


@attrs.frozen
class EnrollmentTarget:
    """The directory that a command changes, the credentials for it, and whether it only prints the changes.

    @ivar configuration: of the server; C{None} without C{--config}.
    """

    configuration: Configuration | None
    settings: LdapSettings
    dry_run: bool


def directory_options(command: _C) -> _C:
    """Add the options for the directory, the operator's credentials, and C{--dry-run} to a command."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Print the changes as LDIF without making them."),
        click.option(
            "--password-file",
            metavar="F",
            envvar="MSMQ_DIRECTORY_PASSWORD_FILE",
            help="The file with your password, - to be asked for it.  [env: MSMQ_DIRECTORY_PASSWORD_FILE]",
        ),
        click.option(
            "--bind-dn",
            metavar="DN",
            envvar="MSMQ_DIRECTORY_BIND_DN",
            help="Your account.  [default: that of the configuration; env: MSMQ_DIRECTORY_BIND_DN]",
        ),
        click.option(
            "--directory", metavar="URL", help="ldaps://HOST/BASE.  [default: that of the configuration]"
        ),
        click.option(
            "--config", metavar="FILE", help="The configuration of the server that joins, or of any member."
        ),
    ):
        command = option(command)
    return command


@click.command
@click.argument("name", required=False)
@click.option("--dns-name", metavar="NAME", help="Its qualified name.  [default: unchanged]")
@click.option("--site", "sites", metavar="SITE", multiple=True, help="Its site, by name or GUID; repeatable.")
@click.option(
    "--routing/--no-routing",
    default=None,
    help="Whether it is a routing server for messages of other members.",
)
@directory_options
@common_options
@pass_settings
def join(
    settings: Settings,
    /,
    name: str | None,
    dns_name: str | None,
    sites: tuple[str, ...],
    routing: bool | None,
    **where: Any,
) -> None:
    """Make the computer NAME a queue manager of the enterprise, or add missing entries.

    With --config the name, sites, role and quotas are those of the configuration, unless an option says
    otherwise, and so is the qualified name of a computer that has none in the directory.
    """
    target = _target(**where)
    name, wanted = _wanted(target.configuration, name, dns_name, sites, routing)
    _show(settings, target, lambda enrollment: enrollment.join(name, wanted))


@click.command
@click.argument("name")
@click.option("--with-queues", is_flag=True, help="Remove its public queues from the directory too.")
@directory_options
@common_options
@pass_settings
def leave(settings: Settings, /, name: str, with_queues: bool, **where: Any) -> None:
    """Remove the queue manager NAME from the enterprise, with all references to it."""
    target = _target(**where)
    _show(settings, target, lambda enrollment: enrollment.leave(name, with_queues=with_queues))


@click.command
@click.argument("name")
@click.option(
    "--routing/--no-routing",
    required=True,
    help="Whether it is a routing server for messages of other members.",
)
@directory_options
@common_options
@pass_settings
def role(settings: Settings, /, name: str, routing: bool, **where: Any) -> None:
    """Set whether the queue manager NAME routes messages of other members."""
    from msmq.directory.ldap.enrollment.plan import MemberRequest

    target = _target(**where)
    _show(settings, target, lambda enrollment: enrollment.change(name, MemberRequest(routing=routing)))


@click.command
@click.argument("name")
@click.argument("sites", nargs=-1)
@click.option(
    "--none", "is_none", is_flag=True, help="Remove it from all sites; messages are not routed to it."
)
@directory_options
@common_options
@pass_settings
def site(settings: Settings, /, name: str, sites: tuple[str, ...], is_none: bool, **where: Any) -> None:
    """Make the queue manager NAME a member of exactly these SITES, by name or GUID."""
    from msmq.directory.ldap.enrollment.plan import MemberRequest

    if bool(sites) == is_none:
        raise click.UsageError("name the sites, or give --none")
    target = _target(**where)
    _show(settings, target, lambda enrollment: enrollment.change(name, MemberRequest(sites=sites)))


@click.command
@click.argument("one")
@click.argument("other")
@click.option("--cost", type=click.IntRange(1, 999_999), metavar="N", help="Cost of the link.  [default: 1]")
@click.option("--gate", "gates", metavar="NAME", multiple=True, help="A site gate at one end; repeatable.")
@click.option("--remove", is_flag=True, help="Remove the link.")
@directory_options
@common_options
@pass_settings
def link(
    settings: Settings,
    /,
    one: str,
    other: str,
    cost: int | None,
    gates: tuple[str, ...],
    remove: bool,
    **where: Any,
) -> None:
    """Create or change the routing link between the sites ONE and OTHER."""
    target = _target(**where)
    _show(
        settings,
        target,
        lambda enrollment: enrollment.link((one, other), cost=cost, gates=gates, remove=remove),
    )


def _wanted(
    configuration: Configuration | None,
    name: str | None,
    dns_name: str | None,
    sites: tuple[str, ...],
    routing: bool | None,
) -> tuple[str, Any]:
    """The options of a new member: name, roles, sites."""
    from msmq.directory.ldap.enrollment.plan import MemberRequest
    from msmq.service.data_directory.identity import IdentityError, has_identity, load_identity
    from msmq.wire.guid import format_guid

    if configuration is None:
        if name is None:
            raise click.UsageError("name the computer, or give the --config of its server")
        return name, MemberRequest(sites or None, routing, dns_name)
    own = configuration.queue_manager
    if name is not None and name.lower() != own.name.lower():
        raise click.UsageError(f"{name} is not {own.name}, the queue manager of the --config")
    identifier = None
    try:
        if has_identity(own.data):
            identifier = load_identity(own.data)
    except IdentityError as error:
        raise MQError(Status.MQ_ERROR_DS_ERROR, str(error)) from error
    return own.name, MemberRequest(
        sites or tuple(format_guid(each) for each in own.sites) or None,
        (True if own.routing_server else None) if routing is None else routing,
        dns_name,
        identifier,
        configuration.limits.quota,
        configuration.limits.journal_quota,
        own.dns_name if "." in own.dns_name else "",
    )


def _target(
    config: str | None,
    directory: str | None,
    bind_dn: str | None,
    password_file: str | None,
    dry_run: bool,
) -> EnrollmentTarget:
    from msmq.directory.ldap.settings import parse_settings
    from msmq.service.configuration import ConfigurationError, load

    configuration = None
    options: dict[str, object] = {}
    if config is not None:
        try:
            configuration = load(config)
        except ConfigurationError as error:
            first, *others = error.problems
            more = f", and {len(others)} more" if others else ""
            raise click.UsageError(f"{first}{more}") from error
        options = dict(configuration.directory_options)
        directory = directory or configuration.directory
    if directory is None:
        raise click.UsageError("give the --config of a member, or a --directory")
    if not directory.startswith(_SCHEMES):
        raise click.UsageError(
            f"the directory {directory} does not speak LDAP; edit the enterprise file instead, and check it"
            " with msmq enterprise check"
        )
    if bind_dn is not None:
        options = {key: value for key, value in options.items() if key in _OWN_CREDENTIALS}
        options["bind_dn"] = bind_dn
        options["password_file"] = _password(bind_dn, password_file)
    elif password_file is not None:
        raise click.UsageError("--password-file is the password of --bind-dn, which is missing")
    try:
        return EnrollmentTarget(configuration, parse_settings(directory, options), dry_run)
    except ValueError as error:
        raise click.UsageError(f"the directory {directory}: {error}") from error


def _password(bind_dn: str, file: str | None) -> Path:
    """Read the operator's password from a file or a prompt; a prompted one is kept in memory only."""
    if file is not None and file != "-":
        return Path(file)
    if sys.stdin is not None and sys.stdin.isatty():
        password = click.prompt(f"Password of {bind_dn}", hide_input=True, err=True)
    else:
        line = standard_input().readline().rstrip(b"\r\n")
        password = line.decode("utf-8", "surrogateescape")
    memory = os.memfd_create("password")
    os.write(memory, password.encode("utf-8", "surrogateescape"))
    return Path(f"/proc/self/fd/{memory}")


def _show(
    settings: Settings,
    target: EnrollmentTarget,
    enroll: Callable[[Enrollment], Awaitable[list[EnrollmentStep]]],
) -> None:
    """Apply the changes and print one line for each entry, or print the changes as LDIF."""
    from msmq.directory.ldap.enrollment.ldif import to_ldif

    settings.refuse_on()
    steps = _run(target, enroll)
    output = settings.output
    if output.as_json:
        for step in steps:
            output.object(_record(step))
    elif target.dry_run:
        output.write(
            to_ldif((step.change, step.waits) for step in steps).rstrip("\n") or "# nothing to change"
        )
    else:
        for step in steps:
            record = _record(step)
            attributes = f": {', '.join(record['attributes'])}" if record["attributes"] else ""
            output.write(f"{record['change']} {record['dn']}{attributes}")
        if not steps:
            output.text("nothing to change")
    output.flush()


def _record(step: EnrollmentStep) -> dict[str, Any]:
    from msmq.directory.ldap.transport.wire import Add, Modify

    change = step.change
    verb = "created" if isinstance(change, Add) else "changed" if isinstance(change, Modify) else "deleted"
    attributes = sorted(change.values) if isinstance(change, Modify) else []
    return {"change": verb, "dn": change.name, "attributes": attributes}


def _run(
    target: EnrollmentTarget, enroll: Callable[[Enrollment], Awaitable[list[EnrollmentStep]]]
) -> list[EnrollmentStep]:
    """Run the reactor until the changes are made, and return them.

    @raise MQError: the changes failed.
    """
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    try:
        from msmq.directory.ldap.enrollment.enrollment import Enrollment
        from msmq.directory.ldap.operations import Operations
        from msmq.directory.ldap.transport.connection import LdapConnection
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ldaptor":
            raise
        raise click.UsageError("needs ldaptor; install msmq[ldap]") from error

    if not target.settings.servers:
        raise click.UsageError("name the server of the directory: --directory ldaps://HOST/BASE")
    outcome: list[list[EnrollmentStep] | Failure] = []

    def end(result: list[EnrollmentStep] | Failure) -> None:
        outcome.append(result)
        reactor.stop()

    async def do() -> list[EnrollmentStep]:
        connection = LdapConnection(target.settings, reactor)
        try:
            await connection.check()
            return await enroll(Enrollment(Operations(connection), uuid4, dry_run=target.dry_run))
        finally:
            connection.close()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(do()).addBoth(end))
    reactor.run()
    if not outcome:
        # The reactor's own handler of SIGINT stopped it.
        raise KeyboardInterrupt
    [result] = outcome
    if not isinstance(result, Failure):
        return result
    assert result.value is not None
    raise _refusal(result.value)


def _refusal(error: BaseException) -> BaseException:
    """The refusal for an error."""
    from msmq.directory.ldap.enrollment.plan import EnrollmentError
    from msmq.directory.ldap.transport.certificates import LdapConfigurationError
    from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult

    if isinstance(error, DirectoryError):
        is_away = error.result is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
        return MQError(Status.MQ_ERROR_NO_DS if is_away else Status.MQ_ERROR_DS_ERROR, error.detail)
    if isinstance(error, EnrollmentError | LdapConfigurationError):
        return MQError(Status.MQ_ERROR_DS_ERROR, str(error))
    return error

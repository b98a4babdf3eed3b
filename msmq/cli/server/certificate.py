"""C{msmq certificate}: the certificates with which messages are signed."""

from __future__ import annotations

import base64
import textwrap
from typing import Any, Final

import click

from msmq.cli.confirmation import confirm, dry_run_option, yes_option
from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = ("fingerprint", "subject", "sid", "not_after", "internal", "valid")
_LARGEST: Final = 1024 * 1024


@click.group
@common_options
def certificate() -> None:
    """Create, import, list, publish and delete signing certificates."""


@certificate.command("create")
@click.option("--sid", metavar="SID", help="The SID of the sender.  [default: every sender of this server]")
@click.option("--name", metavar="T", help="The subject name.  [default: the SID]")
@click.option("--days", metavar="N", type=click.IntRange(1, 36500), help="Validity in days.  [default: 3650]")
@click.option("--renew", is_flag=True, help="Replace the existing certificate.")
@common_options
@pass_settings
def create(settings: Settings, /, renew: bool, **properties: Any) -> None:
    """Generate a key and an internal certificate, at most one for each user."""
    wanted = {name: value for name, value in properties.items() if value is not None}
    if renew:
        wanted["renew"] = True
    _show(settings, settings.client.add_certificate(wanted))


@certificate.command("import")
@click.argument("file", metavar="FILE")
@click.option("--sid", metavar="SID", help="The SID of the sender.  [default: every sender of this server]")
@click.option("--password-file", metavar="F", help="The password of FILE: the first line of F.")
@common_options
@pass_settings
def import_(settings: Settings, file: str, sid: str | None, password_file: str | None) -> None:
    """Import a certificate with its key from FILE: PEM, DER or PKCS#12."""
    wanted = {"file_base64": base64.b64encode(_read(file)).decode()}
    if sid is not None:
        wanted["sid"] = sid
    if password_file is not None:
        line, _, _ = _read(password_file).partition(b"\n")
        wanted["password"] = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
    _show(settings, settings.client.add_certificate(wanted))


@certificate.command("list")
@common_options
@pass_settings
def list_(settings: Settings) -> None:
    """List the certificates, in the order in which they were added."""
    settings.output.many(settings.client.certificates(), _COLUMNS)
    settings.output.flush()


@certificate.command("show")
@click.argument("fingerprint", default="")
@click.option("--pem", is_flag=True, help="Print the certificate itself, without its key.")
@common_options
@pass_settings
def show(settings: Settings, fingerprint: str, pem: bool) -> None:
    """Show the certificate with this prefix of its FINGERPRINT, or the one used for signing."""
    found = settings.client.certificate(fingerprint)
    if not pem:
        _show(settings, found)
        return
    lines = textwrap.wrap(found["certificate_base64"], 64)
    for line in ("-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----"):
        settings.output.write(line)
    settings.output.flush()


@certificate.command("publish")
@click.argument("fingerprint", default="")
@common_options
@pass_settings
def publish(settings: Settings, fingerprint: str) -> None:
    """Register a certificate with its user in the directory, so that other members accept its signatures."""
    _show(settings, settings.client.publish_certificate(fingerprint))


@certificate.command("delete")
@click.argument("fingerprint")
@yes_option
@dry_run_option
@common_options
@pass_settings
def delete(settings: Settings, fingerprint: str, yes: bool, dry_run: bool) -> None:
    """Delete a certificate and its key; its registration in a directory stays.

    On a terminal the command asks for confirmation.
    """
    client = settings.client
    if dry_run:
        _show(settings, client.certificate(fingerprint))
        return
    # Existing scripts do not have --yes.
    confirm(
        lambda: f"Delete the certificate of {client.certificate(fingerprint)['subject']} and its key",
        yes=yes,
        is_required=False,
    )
    _show(settings, client.delete_certificate(fingerprint))


def _show(settings: Settings, record: dict[str, Any]) -> None:
    output = settings.output
    if output.as_json:
        output.object(record)
    else:
        output.one({key: value for key, value in record.items() if key != "certificate_base64"})
    output.flush()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error

"""An OpenLDAP server of our own, with the configuration and the estate that C{docs/ldap} ships.

It belongs to a user without rights, listens on 127.0.0.1 alone, and ends with the process that started it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

import psutil
from twisted.trial.unittest import SkipTest

from msmq.directory.ldap.settings import LdapServer
from tests.patience import DEADLINE

SUFFIX: Final = "dc=example,dc=com"
ADMINISTRATOR: Final = f"cn=admin,{SUFFIX}"
PASSWORD: Final = "secret"

_DOCUMENTS: Final = Path(__file__).resolve().parents[2] / "docs" / "ldap"
_SCHEMAS: Final = Path("/etc/ldap/schema")
_USER: Final = "nobody"
"""As whom the server runs where it is started by root."""


def program(name: str) -> Path:
    """Where a program of OpenLDAP is.

    @raise SkipTest: it is not installed.
    """
    found = shutil.which(name, path=f"/usr/sbin:/usr/libexec:/usr/lib/openldap:{os.environ.get('PATH', '')}")
    if found is None or not (_SCHEMAS / "core.ldif").exists():
        raise SkipTest("OpenLDAP is not installed (Debian's package slapd)")
    return Path(found)


def free_port() -> int:
    """A free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class SlapdServer:
    """One server in a directory of its own.

    @param certificate: PEM files of an authority, a certificate and its key, for TLS.
    @param is_open: whether anonymous clients have every right.
    @param address: the listening address.
    @param port: the port of C{ldap:}; by default a free one.
    @ivar tls_port: the port of C{ldaps:}; only with a certificate.
    @ivar servers: its address for the settings of a directory; C{tls_servers}: the same over TLS.
    """

    def __init__(
        self,
        *,
        certificate: tuple[bytes, bytes, bytes] | None = None,
        is_open: bool = False,
        address: str = "127.0.0.1",
        port: int | None = None,
    ) -> None:
        self._slapd, slapadd = program("slapd"), program("slapadd")
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-ldap-", dir="/tmp"))
        atexit.register(self.remove)
        self._address = address
        self.port = free_port() if port is None else port
        self.tls_port = free_port()
        self.servers = (LdapServer(address, self.port),)
        self.tls_servers = (LdapServer(address, self.tls_port),)
        self._has_tls = certificate is not None
        (self.directory / "data").mkdir()
        (self.directory / "slapd.d").mkdir()
        shutil.copy(_DOCUMENTS / "msmq-schema.ldif", self.directory)
        shutil.copy(_DOCUMENTS / "estate.ldif", self.directory)
        text = (_DOCUMENTS / "slapd.ldif").read_text()
        for shipped, ours in (
            ("/run/slapd", self.directory),
            ("/var/lib/ldap", self.directory / "data"),
            ("/etc/ldap/schema/msmq-schema.ldif", self.directory / "msmq-schema.ldif"),
            ("/etc/ldap/tls", self.directory),
            *((("#olcTLS", "olcTLS"),) if certificate else ()),
        ):
            text = text.replace(str(shipped), str(ours))
        if is_open:
            text = text.replace(
                "olcAccess: {0}to attrs=userPassword",
                "olcAccess: {0}to * by * write\nolcAccess: {0}to attrs=userPassword",
            )
            text = text.replace("olcPidFile:", "olcAllows: update_anon\nolcPidFile:")
        # Nothing here has to outlive a power cut.
        text = text.replace("olcDbMaxSize:", "olcDbNoSync: TRUE\nolcDbMaxSize:")
        (self.directory / "slapd.ldif").write_text(text)
        if certificate is not None:
            self.certify(*certificate)
        if os.getuid() == 0:
            for path in (self.directory, *self.directory.rglob("*")):
                shutil.chown(path, _USER)
        for database, file in (("0", "slapd.ldif"), ("1", "estate.ldif")):
            self._run(slapadd, "-q", "-n", database, "-F", "slapd.d", "-l", file)
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens."""
        addresses = f"ldap://{self._address}:{self.port}/"
        if self._has_tls:
            addresses += f" ldaps://{self._address}:{self.tls_port}/"
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_prefix(), self._slapd, "-F", "slapd.d", "-h", addresses, "-d", "0"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                start_new_session=True,
            )
        give_up = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection((self._address, self.port), 1).close()
                return
            except OSError as error:
                if time.monotonic() > give_up or self._process.poll() is not None:
                    said = (self.directory / "log").read_text(errors="replace")
                    raise AssertionError(f"slapd does not start: {said[-2000:]}") from error
                time.sleep(0.01)

    def stop(self) -> None:
        """As an administrator stops it; doing that again does nothing."""
        self._end(signal.SIGINT)

    def modify(self, ldif: str) -> None:
        """Have OpenLDAP's own tool make these changes, while the server is stopped."""
        (self.directory / "changes.ldif").write_text(ldif)
        self._run(program("slapmodify"), "-n", "1", "-F", "slapd.d", "-l", "changes.ldif")

    def add(self, ldif: str) -> None:
        """Have OpenLDAP's own tool add these entries without further checks, while the server is stopped."""
        (self.directory / "entries.ldif").write_text(ldif)
        self._run(program("slapadd"), "-q", "-n", "1", "-F", "slapd.d", "-l", "entries.ldif")

    def certify(self, authority: bytes, certificate: bytes, key: bytes) -> None:
        """Have it use this certificate from its next start on."""
        for name, contents in (("ca.pem", authority), ("server.pem", certificate), ("server.key", key)):
            (self.directory / name).write_bytes(contents)

    def limit(self, size: int) -> None:
        """Have its disk space, in bytes, from its next start on, while it is stopped."""
        (self.directory / "limit.ldif").write_text(
            "dn: olcDatabase={1}mdb,cn=config\nchangetype: modify\n"
            f"replace: olcDbMaxSize\nolcDbMaxSize: {size}\n"
        )
        self._run(program("slapmodify"), "-n", "0", "-F", "slapd.d", "-l", "limit.ldif")

    def freeze(self) -> None:
        """Have it stand still, with its connections open."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            threads = psutil.Process(self._process.pid)
            while threads.status() != psutil.STATUS_STOPPED:
                time.sleep(0.001)

    def thaw(self) -> None:
        """Resume the stopped process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._process is not None

    def remove(self) -> None:
        """Stop it and remove its directory."""
        self.thaw()
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(DEADLINE)
            self._process = None

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(
            [*_prefix(), *command], cwd=self.directory, capture_output=True, timeout=DEADLINE
        )
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace"))


def _prefix() -> list[str]:
    """Run as that user, and end with the process that started it."""
    group = ["--reuid", _USER, "--regid", "nogroup", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", *group, "--pdeathsig=KILL"]


@cache
def shared_server() -> SlapdServer:
    """One server for all tests of the process that leave it running; each takes a base of its own.

    @raise SkipTest: OpenLDAP is not installed.
    """
    return SlapdServer()

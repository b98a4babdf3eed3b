"""An Active Directory domain controller of our own: Samba, which has the genuine classes of MSMQ.

It is made once a week, since that takes eleven seconds of a processor, and copied for each process of the
tests that needs one. It listens on one address of the loopback network alone, another one for each process,
and ends with the process that started it.
Its ports are those of LDAP and Kerberos, so that only root can start it.
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

from twisted.trial.unittest import SkipTest

from tests.patience import DEADLINE
from tests.servers.certificates import make_credentials
from tests.servers.shared_files import copy_of

ADDRESS: Final = f"127.{192 + os.getpid() // 254 % 60}.{os.getpid() % 254 + 1}.77"
PORT: Final = 389
TLS_PORT: Final = 636
REALM: Final = "MSMQ.TEST"
DOMAIN: Final = "DC=msmq,DC=test"
ADMINISTRATOR: Final = "administrator@msmq.test"
PASSWORD: Final = "Passw0rd!test"

_PROVISION: Final = (
    *("--realm=MSMQ.TEST", "--domain=MSMQ", "--host-name=DC", "--host-ip=127.0.0.77", "--server-role=dc"),
    *("--dns-backend=NONE", f"--adminpass={PASSWORD}", "--option=interfaces=lo"),
    *("--option=bind interfaces only=yes", "--option=vfs objects=dfs_samba4 acl_xattr xattr_tdb"),
)

_CONFIGURATION: Final = """\
[global]
netbios name = DC
realm = MSMQ.TEST
workgroup = MSMQ
server role = active directory domain controller
server services = ldap kdc
interfaces = {address}/8
bind interfaces only = yes
lock directory = {directory}
cache directory = {directory}/cache
state directory = {directory}/state
private dir = {directory}/private
binddns dir = {directory}/bind-dns
pid directory = {directory}
ncalrpc dir = {directory}/ncalrpc
log file = {directory}/log
ldap server require strong auth = no
tls enabled = yes
tls certfile = {directory}/dc.pem
tls keyfile = {directory}/dc.key
tls cafile = {directory}/ca.pem
vfs objects = dfs_samba4 acl_xattr xattr_tdb
"""


class SambaServer:
    """One domain, in a directory of its own.

    @param address: of this computer, where it listens.
    @raise SkipTest: it cannot be started.
    """

    def __init__(self, address: str = ADDRESS) -> None:
        samba, tool = shutil.which("samba"), shutil.which("samba-tool")
        if samba is None or tool is None or not Path("/usr/share/samba/setup").is_dir():
            raise SkipTest("Samba is not installed (Debian's packages samba and samba-ad-provision)")
        if os.getuid() != 0:
            raise SkipTest("only root can start Samba, whose LDAP port is fixed")
        self._samba, self._tool = samba, tool
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None
        # Making a domain waits for the disk hundreds of times, where it is on one.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-dc-", dir=place))
        atexit.register(self.remove)
        copy_of("samba", self._version(), self.directory, self._provision)
        configuration = _CONFIGURATION.format(address=address, directory=self.directory)
        (self.directory / "smb.conf").write_text(configuration)
        credentials = make_credentials(address=address)
        self.authority = self._written("ca.pem", credentials.authority)
        self._written("dc.pem", credentials.certificate)
        self._written("dc.key", credentials.key)
        self.start()

    def _provision(self, directory: Path) -> None:
        """Make the domain, without its configuration; neither the directory nor the address is in it."""
        self._run(self._tool, "domain", "provision", f"--targetdir={directory}", *_PROVISION)
        shutil.rmtree(directory / "etc")

    def _version(self) -> str:
        """All that the domain depends on."""
        done = subprocess.run([self._samba, "--version"], capture_output=True, text=True, timeout=DEADLINE)
        return "\n".join((done.stdout, *_PROVISION))

    def _written(self, name: str, contents: bytes) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_bytes(contents)
        return path

    def start(self) -> None:
        """Start it and wait until it listens."""
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig=KILL"),
                    *(self._samba, "-F", "--no-process-group", "-M", "single"),
                    *("-s", self.directory / "smb.conf"),
                ],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                start_new_session=True,
            )
        give_up = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection((self.address, PORT), 1).close()
                return
            except OSError as error:
                if time.monotonic() > give_up or self._process.poll() is not None:
                    said = (self.directory / "output").read_text(errors="replace")
                    raise AssertionError(f"Samba does not start: {said[-2000:]}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop it; doing that again does nothing."""
        self._end(signal.SIGTERM)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._process is not None

    def remove(self) -> None:
        """Stop it and remove its directory."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(DEADLINE)
            self._process = None

    def tool(self, *arguments: str) -> None:
        """Run C{samba-tool} on this domain."""
        self._run(self._tool, *arguments, "-s", str(self.directory / "smb.conf"))

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self.directory, capture_output=True, timeout=DEADLINE)
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace")[-2000:])


@cache
def _server() -> SambaServer | str:
    try:
        return SambaServer()
    except SkipTest as reason:
        return str(reason)


def shared_server() -> SambaServer:
    """The one domain for all tests of the process.

    @raise SkipTest: it cannot be started.
    """
    found = _server()
    if isinstance(found, str):
        raise SkipTest(found)
    return found

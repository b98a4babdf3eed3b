"""Certificates and signatures by openssl's command line, which knows nothing of our code."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from msmq.interfaces.security.signing import Credentials
from tests.patience import DEADLINE
from tests.security.openssl import openssl

OPENSSL = shutil.which("openssl")
WITHOUT_OPENSSL = "" if OPENSSL else "openssl is not installed"


@functools.cache
def directory() -> Path:
    """Where the files of this process are."""
    made = tempfile.TemporaryDirectory(prefix="msmq-certificates-")
    directory.holder = made  # type: ignore[attr-defined]
    return Path(made.name)


def certificate_files(
    number: int = 0, *, key: str = "rsa:2048", days: int = 36500, name: str = ""
) -> tuple[Path, Path]:
    """A certificate in PEM and its key, made by openssl; the same for the same arguments."""
    stem = directory() / f"{number}-{key.replace(':', '-')}-{days}"
    certificate, private = stem.with_suffix(".crt"), stem.with_suffix(".key")
    if private.exists():
        return certificate, private
    common_name = name or f"user {number}"
    openssl(
        *("req", "-x509", "-newkey", key, "-nodes", "-keyout", str(private), "-out", str(certificate)),
        *("-subj", f"/CN={common_name}", "-days", str(days)),
        *(("-pkeyopt", "ec_paramgen_curve:prime256v1") if key == "ec" else ()),
    )
    return certificate, private


@functools.cache
def credentials(number: int = 0, key: str = "rsa:2048") -> Credentials:
    """The same, as bytes."""
    certificate, private = certificate_files(number, key=key)
    return Credentials(
        openssl("x509", "-in", str(certificate), "-outform", "DER"),
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", str(private), "-outform", "DER"),
    )


def sign(private: Path, digest: str, data: bytes) -> bytes:
    """A signature of C{data} as it stands in a packet: least significant byte first."""
    return openssl("dgst", f"-{digest}", "-sign", str(private), data=data)[::-1]


def verifies(certificate: Path, digest: str, signature: bytes, data: bytes) -> bool:
    """Whether openssl takes a signature from a packet."""
    public = certificate.with_suffix(".pub")
    public.write_bytes(openssl("x509", "-in", str(certificate), "-pubkey", "-noout"))
    path = certificate.with_suffix(".sig")
    path.write_bytes(signature[::-1])
    assert OPENSSL is not None
    done = subprocess.run(
        [OPENSSL, "dgst", f"-{digest}", "-verify", str(public), "-signature", str(path)],
        input=data,
        capture_output=True,
        check=False,
        timeout=DEADLINE,
    )
    return done.returncode == 0

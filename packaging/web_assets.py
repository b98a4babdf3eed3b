"""Fetches the pinned npm packages of which the repository has files: C{make web-assets}.

The console itself has no file from elsewhere; axe-core checks the accessibility of its pages in the tests.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

PROJECT: Final = Path(__file__).resolve().parent.parent


@attrs.frozen
class VendoredPackage:
    """A package of the npm registry, and those of its files that are copied.

    @ivar sha512: of the archive, in hex digits.
    @ivar target: the directory for the files, from that of the project.
    """

    name: str
    version: str
    sha512: str
    files: Sequence[str]
    target: str

    def vendor(self) -> None:
        """Replace the files in the target.

        @raise SystemExit: the archive is not the one that was reviewed.
        """
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(
                ["npm", "pack", "--silent", f"{self.name}@{self.version}"],
                cwd=directory,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            [archive] = Path(directory).glob("*.tgz")
            found = hashlib.sha512(archive.read_bytes()).hexdigest()
            if found != self.sha512:
                raise SystemExit(f"{self.name} {self.version}: SHA-512 is {found}, not {self.sha512}")
            target = PROJECT / self.target
            target.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as packed:
                for name in self.files:
                    member = packed.extractfile(f"package/{name}")
                    assert member is not None
                    (target / name).write_bytes(member.read())


PACKAGES: Final = (
    VendoredPackage(
        "axe-core",
        "4.14.1",
        "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b2"
        "14d36db85a2826965edfb3a0b9d546b5",
        ("axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt"),
        "tests/web/console/axe-core",
    ),
)


if __name__ == "__main__":
    for package in PACKAGES:
        package.vendor()

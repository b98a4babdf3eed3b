"""Fetches the pinned npm packages of which the repository has files: C{make web-assets}.

The console draws the map of the enterprise with d3-force; axe-core checks in the tests that its pages are
accessible.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

PROJECT: Final = Path(__file__).resolve().parent.parent


@attrs.frozen
class VendoredPackage:
    """A package of the npm registry, and those of its files that are copied.

    @ivar sha512: of the archive, in hex digits.
    @ivar files: their names in the archive, and in the target.
    @ivar target: the directory for the files, from that of the project.
    """

    name: str
    version: str
    sha512: str
    files: Mapping[str, str]
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
                for name, copied in self.files.items():
                    member = packed.extractfile(f"package/{name}")
                    assert member is not None
                    (target / copied).write_bytes(member.read())


def _d3(name: str, version: str, sha512: str) -> VendoredPackage:
    """A package of D3, which its pages load in one script (L{msmq.web.console.application})."""
    files = {f"dist/{name}.min.js": f"{name}.min.js", "LICENSE": f"{name}.LICENSE"}
    return VendoredPackage(name, version, sha512, files, "msmq/web/console/assets/d3")


PACKAGES: Final = (
    VendoredPackage(
        "axe-core",
        "4.14.1",
        "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b2"
        "14d36db85a2826965edfb3a0b9d546b5",
        {name: name for name in ("axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt")},
        "tests/web/console/axe-core",
    ),
    _d3(
        "d3-dispatch",
        "3.0.2",
        "b00cc7e18e27b0ba3c792ab0e632a266df8b536c1998bfea4be3a4c501a38706b307f0fb4d8df847f40ad5eb217c6afb"
        "71910aca6299fc769e9bb9be96ef7c4a",
    ),
    _d3(
        "d3-force",
        "3.0.1",
        "90069a1cb15e6c1630822e5c6015c023cbcaad014c083d8c12cc23d90b8f28a6dd535c182dcf165ed4bb3bc17f6fa3ce"
        "0887b78098d8ea1903b2d1e2d723044d",
    ),
    _d3(
        "d3-quadtree",
        "3.0.2",
        "f4bbbd9aa24a45b224d1dea62838e9bcf51168f7701d52b90986dc75dd3fe2f060cf895dcffed320eb1ede434446c072"
        "18d7e5779f0a11ca39d3b033b495b24d",
    ),
    _d3(
        "d3-timer",
        "3.0.2",
        "d489756a58aba15484aebbf96ae951071018fbbf839daa0b21619dd42e92b014d60dea1b5a23ff57af6fc1bf2f4fa69b"
        "47590ac1a35ed75f7aa66690d5f2bdd0",
    ),
)


if __name__ == "__main__":
    for package in PACKAGES:
        package.vendor()

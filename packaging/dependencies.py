"""What msmq with all extras consists of: licences, known vulnerabilities, and the bill of materials.

C{python packaging/dependencies.py licences} prints the licence of each package, and fails for one that is not
accepted. C{... audit} asks PyPI for known vulnerabilities of all that C{constraints.txt} names, and fails if
there are any; packages about which PyPI does not answer are counted as not audited.
C{... sbom FILE} writes a software bill of materials in the JSON format of CycloneDX.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from web_assets import PACKAGES

PROJECT: Final = Path(__file__).resolve().parents[1]
ALL: Final = "msmq[all]"
ACCEPTED: Final = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "HPND", "ISC"),
        *("LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0"),
        *("PSF-2.0", "Python-2.0", "Unlicense", "ZPL-2.1", "Zlib"),
    }
)
"""SPDX identifiers of the licences under which a package may be required: none demands one of msmq itself."""
AUDIT_TIME: Final = 120
"""Seconds that the audit may take; C{MSMQ_AUDIT_SECONDS} sets another limit."""
_CLASSIFIERS: Final = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Zope Public License": "ZPL-2.1",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
}
_OPERATORS: Final = frozenset({"AND", "OR", "WITH"})


def required(root: str = ALL) -> tuple[dict[str, Distribution], list[str]]:
    """Everything that a requirement installs, by normalized name, and what of it is not installed here."""
    found: dict[str, Distribution] = {}
    missing: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(root)]
    while waiting:
        requirement = waiting.pop()
        name = normalized(requirement.name)
        try:
            package = found.get(name) or distribution(name)
        except PackageNotFoundError:
            missing.append(name)
            continue
        found[name] = package
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _requirements(package, extra)
    return dict(sorted(found.items())), sorted(set(missing))


def _requirements(package: Distribution, extra: str) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None:
            if not extra:
                yield requirement
        elif marker.evaluate({"extra": extra}) and (not extra or not marker.evaluate({"extra": ""})):
            yield requirement


def normalized(name: str) -> str:
    """A name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licences(package: Distribution) -> set[str]:
    """The identifiers of the licences that the metadata of a package names."""
    metadata = package.metadata
    if expression := _named(package):
        return set(re.findall(r"[\w.+-]+", expression)) - _OPERATORS
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier", [])
        if each.startswith("License ::")
    ]
    named = {_CLASSIFIERS.get(each, each) for each in classifiers} - {"OSI Approved"}
    text = metadata["License"] if "License" in metadata else ""
    return named or {text.strip().partition("\n")[0] or "none"}


def _named(package: Distribution) -> str | None:
    """The SPDX expression of its metadata."""
    metadata = package.metadata
    return metadata["License-Expression"] if "License-Expression" in metadata else None


def refused(packages: Iterable[Distribution]) -> dict[str, set[str]]:
    """The packages with a licence that is not accepted, with these licences."""
    found = {package.name: licences(package) - ACCEPTED for package in packages}
    return {name: unknown for name, unknown in found.items() if unknown}


def audit() -> int:
    """Ask for known vulnerabilities of every pinned package; returns the exit status."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(PROJECT / "constraints.txt")]
    command += ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    seconds = float(os.environ.get("MSMQ_AUDIT_SECONDS", AUDIT_TIME))
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print(f"vulnerabilities: skipped, pip-audit was not done after {seconds:g} seconds")
        return 0
    try:
        answers = json.loads(ended.stdout)["dependencies"]
    except ValueError:
        reason = (ended.stderr.strip() or "no answer").splitlines()[-1]
        print(f"vulnerabilities: skipped, pip-audit got no data: {reason}")
        return 0
    skipped = [each for each in answers if "skip_reason" in each]
    known = [(each, found) for each in answers for found in each.get("vulns", ())]
    for each, found in known:
        versions = ", ".join(found["fix_versions"]) or "no version"
        print(f"{each['name']} {each['version']}: {found['id']}, fixed in {versions}")
    audited = len(answers) - len(skipped)
    if audited:
        print(f"vulnerabilities: {len(known)} known, in {audited} packages that were audited")
    if skipped:
        rest = f"{len(skipped)} packages were not audited, such as: {skipped[0]['skip_reason']}"
        print(f"vulnerabilities: {rest}" if audited else f"vulnerabilities: skipped, {rest}")
    return 1 if known else 0


def bill_of_materials() -> str:
    """The SBOM: msmq, what it requires with all extras, and the npm packages of which it contains files.

    @raise SystemExit: something of it is not installed.
    """
    found, missing = required()
    if missing:
        raise SystemExit(f"not installed, so its version is unknown: {', '.join(missing)}")
    bom = Bom()
    components = {name: _component(name, package) for name, package in found.items()}
    msmq = bom.metadata.component = components.pop("msmq")
    msmq.type = ComponentType.APPLICATION
    for component in components.values():
        bom.components.add(component)
    for name, component in components.items():
        bom.register_dependency(component, _direct(found[name], components))
    # The others are those of the tests.
    parts = [_part(each.name, each.version) for each in PACKAGES if each.target.startswith("msmq/")]
    bom.components.update(parts)
    bom.register_dependency(msmq, [*_direct(found["msmq"], components), *parts])
    return str(JsonV1Dot6(bom).output_as_string(indent=2))


def _component(name: str, package: Distribution) -> Component:
    url = PackageURL("pypi", None, name, package.version)
    factory = LicenseFactory()
    named = _named(package)
    named_licences = (
        [factory.make_from_string(named)]
        if named
        else [factory.make_from_string(each) for each in sorted(licences(package))]
    )
    return Component(name=name, version=package.version, purl=url, bom_ref=str(url), licenses=named_licences)


def _part(name: str, version: str) -> Component:
    scope, _, rest = name.rpartition("/")
    url = PackageURL("npm", scope or None, rest, version)
    return Component(name=name, version=version, purl=url, bom_ref=str(url))


def _direct(package: Distribution, components: Mapping[str, Component]) -> list[Component]:
    """What a package requires by itself; for msmq itself, with each of its extras."""
    extras = ("", *package.metadata.get_all("Provides-Extra", [])) if package.name == "msmq" else ("",)
    names = {normalized(each.name) for extra in extras for each in _requirements(package, extra)}
    return [components[name] for name in sorted(names) if name in components]


def main(arguments: list[str]) -> int:
    """Do what the command says; returns the exit status."""
    match arguments:
        case ["licences"]:
            found, missing = required()
            for name, package in found.items():
                print(f"{name} {package.version}: {', '.join(sorted(licences(package)))}")
            for name in missing:
                print(f"{name}: not installed")
            bad = refused(found.values())
            for name, unknown in bad.items():
                print(f"{name} has a licence that is not accepted: {', '.join(sorted(unknown))}")
            return 1 if bad else 0
        case ["audit"]:
            return audit()
        case ["sbom", path]:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(bill_of_materials() + "\n", encoding="utf-8")
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

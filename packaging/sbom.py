"""Writes what is in a bundle: the CycloneDX list for machines, and everybody's licences for people.

A script for the build's own environment: `sbom.py TREE TARGET VERSION COMMIT MOMENT` writes TARGET/sbom.cdx.json and
TARGET/THIRD-PARTY-LICENCES.txt. The same bundle gives the same bytes.
"""

from __future__ import annotations

import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

import inventory
from inventory import Part

_NAMESPACE = uuid.UUID("5a5f7d6e-9d0b-4a0e-8a59-52a6f3a2f5c1")  # of Quern's lists
_KINDS = {
    "library": ComponentType.LIBRARY, "file": ComponentType.FILE,
    "machine-learning-model": ComponentType.MACHINE_LEARNING_MODEL,
}  # fmt: skip


def main(tree: Path, target: Path, version: str, commit: str, moment: int) -> None:
    """Writes both files."""
    found = inventory.parts(tree)
    target.mkdir(parents=True, exist_ok=True)
    (target / "THIRD-PARTY-LICENCES.txt").write_text(inventory.licence_file(found, version), encoding="utf-8")
    (target / "sbom.cdx.json").write_text(document(found, version, commit, moment), encoding="utf-8")


def document(found: list[Part], version: str, commit: str, moment: int) -> str:
    """Returns the list as JSON of CycloneDX 1.6."""
    quern = Component(name="quern", version=version, type=ComponentType.APPLICATION, bom_ref=f"quern@{version}",
                      licenses=[LicenseFactory().make_from_string("MIT")], purl=PackageURL.from_string(
                          f"pkg:generic/quern@{version}" + (f"?vcs_commit={commit}" if commit else "")))  # fmt: skip
    components = [_component(part) for part in found]
    serial = uuid.uuid5(_NAMESPACE, "\n".join([version, commit, *(part.url for part in found)]))
    bom = Bom(components=components, serial_number=serial, metadata=BomMetaData(
        component=quern, timestamp=datetime.fromtimestamp(moment, UTC)))  # fmt: skip
    bom.dependencies.add(Dependency(quern.bom_ref, [Dependency(each.bom_ref) for each in components]))
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    return str(outputter.output_as_string(indent=1)) + "\n"


def _component(part: Part) -> Component:
    licence = re.sub(r"\s+", " ", part.licence)
    return Component(name=part.name, version=part.version, type=_KINDS[part.kind], bom_ref=part.url,
                     purl=PackageURL.from_string(part.url),
                     licenses=[LicenseFactory().make_from_string(licence)])  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))

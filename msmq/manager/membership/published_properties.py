"""The properties of a queue that a directory has too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ATTRIBUTES: Final[Mapping[str, str]] = {
    "label": "label",
    "transactional": "transactional",
    "journal": "journaling",
    "quota": "quota",
    "journal_quota": "journal_quota",
    "authenticate": "authentication",
    "privacy": "privacy_level",
    "application_type": "type",
}
"""The properties of a queue that a directory has too, with their names there."""

FROM_THE_DIRECTORY: Final = (
    "label",
    "journal",
    "quota",
    "journal_quota",
    "authenticate",
    "privacy",
    "application_type",
    "base_priority",
)


def split_properties(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split properties into those of the directory, by its names, and local ones."""
    published = {ATTRIBUTES[name]: value for name, value in properties.items() if name in ATTRIBUTES}
    return published, {name: value for name, value in properties.items() if name not in ATTRIBUTES}

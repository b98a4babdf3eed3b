"""The build backend: setuptools, which packs C{msmq-stubs} too, generated from the interfaces."""

from __future__ import annotations

from interface_stubs import write_stubs
from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, str | list[str] | None] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """PEP 517: build a wheel, with the stubs of the interfaces as they stand now."""
    write_stubs()
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name

"""Errors of creating and building a project (spec/authoring.md, AU-3)."""

from __future__ import annotations

from aos.errors import Refused, Unavailable


class ToolMissing(Unavailable):
    """A compiler or another program is missing. The text names what to install on this system."""


class BuildFailed(Refused):
    """The sources do not build, or differ from the files on disk. The files of earlier builds are
    unchanged."""

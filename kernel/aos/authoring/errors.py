"""What goes wrong while a project is made or built (spec/authoring.md, AU-3)."""

from __future__ import annotations

from aos.errors import Refused, Unavailable


class ToolMissing(Unavailable):
    """A compiler or another program is not there. The text says what to install on this system."""


class BuildFailed(Refused):
    """The sources make no module that can be applied, or another than is on disk. What a build
    wrote before stays as it was."""

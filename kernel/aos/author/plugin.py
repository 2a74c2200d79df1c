"""Refuse to test a project's stale build in plain pytest (spec/testing.md, T-50a).

`aos.testing.plugin` loads this file. Like that one, it imports nothing of AOS before a test
requests a world.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

CURRENT: Final = pytest.StashKey[set[Path]]()
"""Projects whose build was found to be current in this run of pytest."""


@pytest.hookimpl
def pytest_aos_source(path: Path, config: pytest.Config) -> Exception | None:
    """Return the error that names the command that builds, if ``path`` is in a stale build."""
    from aos.author.build_record import (  # noqa: PLC0415  # see above
        project_built_at,
        refuse_stale_build,
    )
    from aos.errors import AosError  # noqa: PLC0415

    current = config.stash.setdefault(CURRENT, set())
    try:
        project = project_built_at(path)
        if project is not None and project.folder not in current:
            refuse_stale_build(project)
            current.add(project.folder)
    except AosError as problem:
        return problem
    return None

"""The pytest plugin: fixtures ``aos_world`` and ``world`` (spec/testing.md, T-50 to T-54).

pytest loads this file in every project of the environment, so it imports nothing of AOS until a
test requests a world.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

MARKER: Final = "aos"
MANIFEST: Final = "aos_manifest"
NO_REPLAY: Final = "--aos-no-replay"
PROJECT: Final = "aos.toml"
TRACE: Final = "aos world"

AUTHORING: Final = "aos.author.plugin"
"""Knows projects and their builds. This package may not import it, so pytest does."""

pytest_plugins = (AUTHORING,)

_WORLDS: Final = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        MANIFEST, "Manifest of the fixture world: a path relative to the project or rootdir"
    )
    parser.getgroup("aos").addoption(
        NO_REPLAY, action="store_true", help="Do not replay worlds at the end of their test."
    )


class Hooks:
    """The hooks that this plugin calls."""

    @pytest.hookspec(firstresult=True)
    def pytest_aos_source(self, path: Path, config: pytest.Config) -> Exception | None:
        """Return why no world may have the manifest at ``path``; None if it may."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(manifest, ...): arguments of the fixture world, as for aos_world"
    )


class Factory:
    """The fixture ``aos_world``: creates an ``aos.testing.World``, with paths relative to the
    project, and closes it at the end of the test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._node = request.node
        self._config = request.config
        self._home = home(Path(request.node.path), request.config.rootpath)
        self._replays = not request.config.getoption(NO_REPLAY)
        self.worlds: list[Any] = []
        request.node.stash.setdefault(_WORLDS, []).append(self)

    def __call__(self, source: Any = None, **options: Any) -> Any:
        from aos.testing.world import World  # noqa: PLC0415  # see above

        if source is None:
            source = self._home
        elif isinstance(source, str | os.PathLike):
            source = self._home / source
        if isinstance(source, Path):
            problem = self._config.hook.pytest_aos_source(path=source, config=self._config)
            if problem is not None:
                raise problem.with_traceback(None)
        if not self._replays:
            options["replay"] = False
        if "executors" in options:
            options["executors"] = _at_home(options["executors"], self._home)
        world = World(source, **options)
        self.worlds.append(world)
        return world

    def close(self) -> None:
        """Close all worlds, then raise the first error."""
        problems: list[Exception] = []
        for world in self.worlds:
            try:
                world.close()
            except Exception as problem:  # noqa: BLE001  # close the others first
                problems.append(problem)
        if problems:
            raise problems[0]


def _at_home(executors: Any, home: Path) -> Any:
    """``FILE.py:ATTR`` with the file's path from the project, wherever pytest was started."""
    if isinstance(executors, str):
        file, colon, attribute = executors.rpartition(":")
        return f"{home / file}{colon}{attribute}" if file.endswith(".py") else executors
    if isinstance(executors, list | tuple):
        return [_at_home(executor, home) for executor in executors]
    return executors


def home(test: Path, root: Path) -> Path:
    """The nearest folder above a test's file that is a project, else pytest's rootdir."""
    for folder in test.parents:
        if (folder / PROJECT).is_file():
            return folder
    return root


@pytest.fixture
def aos_world(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A factory of worlds in memory, with the parameters of aos.testing.World."""
    factory = Factory(request)
    yield factory
    factory.close()


@pytest.fixture
def world(request: pytest.FixtureRequest, aos_world: Any) -> Any:
    """A world in memory. Its manifest is that of the marker ``aos``, else of the ini option
    ``aos_manifest``, else the project's."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is not None and (marker.args or "source" in marker.kwargs):
        return aos_world(*marker.args, **marker.kwargs)
    options = {} if marker is None else dict(marker.kwargs)
    return aos_world(request.config.getini(MANIFEST) or None, **options)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison with ``like`` (T-53)."""
    plain = sys.modules.get("aos.testing.plain")
    if plain is None or op != "==":
        return None
    for pattern, value in ((right, left), (left, right)):
        if plain.holds_like(pattern):
            return [
                "the value does not match like():",
                *map(str, plain.differences(pattern, value)),
            ]
    return None


@pytest.hookimpl(hookwrapper=True)  # not wrapper=True, which older versions of pytest do not have
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Add the trace of a test's worlds to the report of its failure."""
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        _shorten(call.excinfo)
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for factory in item.stash.get(_WORLDS, []):
            for world in factory.worlds:
                report.sections.append((TRACE, world.trace()))


def _shorten(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Remove AOS's own frames and causes from an error of AOS, because its reason is in the test
    (T-54)."""
    errors = sys.modules.get("aos.errors")
    problem = excinfo.value
    if errors is None or not isinstance(problem, errors.AosError):
        return
    at: TracebackType | None = excinfo.tb
    while at is not None:  # modify the chain itself, because pytest reads it again
        following = at.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        at.tb_next = following
        at = following
    if problem.__cause__ is not None and _is_raised_by_us(problem.__cause__):
        problem.__cause__ = None  # sets __suppress_context__ too


def _is_raised_by_us(problem: BaseException) -> bool:
    at = problem.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and _is_ours(at)


def _is_ours(at: TracebackType) -> bool:
    return str(at.tb_frame.f_globals.get("__name__")).startswith("aos.")

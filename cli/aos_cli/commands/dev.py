"""``aos dev``: run a project in a scratch world, and rebuild it at each change (C-62)."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

from aos.author.build import Built
from aos.author.dev import Dev
from aos.author.project import Project, find_project
from aos.author.scratch import prepare
from aos.author.screen import Options
from aos.core.decide.answers import Blocker
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError
from aos.host.apply.dry_run import groups_document
from aos.manifest.difference import Difference
from aos.read.trace.render import Branch
from aos.read.views.manifest_changes import changes_document
from aos_cli.apply_text import show_blockers, show_changes
from aos_cli.commands import build, trace
from aos_cli.options import AllowHttp, HostRoot, ProjectPath, SecretsFile, flag
from aos_cli.output import line, note


def dev(
    path: ProjectPath = Path(),
    *,
    fresh: Annotated[
        bool, flag("--fresh", "Delete the scratch world and start with a new one.")
    ] = False,
    until_idle: Annotated[
        bool, flag("--until-idle", "Send the lines of stdin, and exit when nothing is left to do.")
    ] = False,
    page: Annotated[
        bool, flag("--page", "Show the scratch world in a browser, too; prints the URL.")
    ] = False,
    allow_http: AllowHttp = None,
    secrets: SecretsFile = None,
    host_root: HostRoot = None,
) -> int:
    project = find_project(path)
    build.tell_outdated(project)
    with _over() as over, _page(project, is_wanted=page, fresh=fresh):
        options = Options(
            fresh=fresh and not page,  # with a page, the scratch world is new already
            until_idle=until_idle,
            allow_http=tuple(allow_http or ()),
            secrets=None if secrets is None else secrets.resolve(),
            host_root=None if host_root is None else host_root.resolve(),
            stdin=_stdin(until_idle=until_idle),
            over=over,
        )
        return Dev(project, options, _Screen()).run()


@contextmanager
def _page(project: Project, *, is_wanted: bool, fresh: bool) -> Iterator[None]:
    """Show the scratch world in a page of its own process until the end of the block."""
    if not is_wanted:
        yield
        return
    world = project.folder / project.world
    prepare(world, fresh=fresh)
    words = [sys.executable, *QUICK_PROGRAM, "aos.page.page_server", str(world)]
    with subprocess.Popen(  # noqa: S603  # our own program
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        if url := child.stdout.readline().strip():
            line(f"▸ the page, valid once: {url}", style="bold cyan")
        try:
            yield
        finally:
            child.stdin.close()
            child.wait()


@contextmanager
def _over() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set, to end the command normally."""
    over = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        over.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield over
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _stdin(*, until_idle: bool) -> int | None:
    """The descriptor of stdin. None without stdin, or if the user would have to type its end."""
    if sys.stdin is None or (until_idle and sys.stdin.isatty()):
        return None
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return None  # stdin is no file, as in tests


class _Screen:
    """Prints traces and the results of changes to stdout, and problems to stderr."""

    def say(self, text: str) -> None:
        line(f"▸ {text}", style="bold cyan")

    def note(self, text: str) -> None:
        note(text, style="dim")

    def problem(self, problem: AosError) -> None:
        for text in str(problem).splitlines() or [type(problem).__name__]:
            note(f"aos: {text}", style="red")

    def built(self, built: Built) -> None:
        build.show(built)

    def changed(self, difference: Difference) -> None:
        show_changes(changes_document(difference))

    def blockers(self, blockers: Sequence[Blocker]) -> None:
        show_blockers(groups_document(blockers, None), len(blockers))

    def trace(self, branches: tuple[Branch, ...]) -> None:
        line()
        trace.show_branches(branches)

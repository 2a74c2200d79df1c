"""``aos dev``: build a project, apply it to a scratch world and run it, again after each change
(spec/authoring.md, AU-80 to AU-89).

One loop polls all sources in turn: typed lines, messages of the world's process, new durable
records, changed files, a finished build. Only a build has its own thread, so that the world
continues to run meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.author.build import Built, build
from aos.author.build_record import Changes, Watch, names_text
from aos.author.live import LiveWorld, NoExecutors
from aos.author.project import Project, read_project, short_path
from aos.author.scratch import prepare, put_in_force
from aos.author.screen import Command, Options, Screen, Typed, parse_line
from aos.author.toolchain import Console, Stopped
from aos.core.decide.answers import Admitted, Refusal
from aos.errors import AosError, Refused
from aos.host.door.writer import Item, open_writer
from aos.host.folder.reader import open_reader

TICK_S: Final = 0.15
"""Time between two rounds of the loop."""


class Dev:
    """One run of ``aos dev``."""

    def __init__(self, project: Project, options: Options, screen: Screen) -> None:
        self._project = project
        self._options = options
        self._screen = screen
        self._console = Console(report=screen.note, given_up=options.over)
        self._typed = Typed(options.stdin)
        self._world = LiveWorld(project.folder / project.world, options, screen)
        self._built: Built | None = None  # the newest, in force or not
        self._builder: Builder | None = None
        self._is_stale = False
        self._code = 0

    def run(self) -> int:
        """Run until ``over`` is set or the world ends; return the exit code.

        Raises:
            AosError: The scratch world cannot be created or run; with ``until_idle`` also a
                problem of the project.
        """
        prepare(self._world.path, fresh=self._options.fresh)
        watch = Watch(self._project)
        try:
            self._begin()
            self._loop(watch)
        except Stopped:
            pass  # it was requested while the loop waited
        finally:
            self._options.over.set()
            if self._builder is not None:
                self._builder.join()
            self._world.stop()
        return self._code

    def _begin(self) -> None:
        """Build, apply and run. Without ``until_idle`` a problem is printed, and the loop waits for
        a change."""
        try:
            self._take_built(build(self._project, console=self._console))
        except Stopped:
            raise
        except AosError as problem:
            if self._options.until_idle:
                raise
            self._screen.problem(problem)
            self._screen.say("waiting for a change")
        after_seq = self._last()
        if self._options.until_idle:
            self._take_lines(self._typed.all())
        else:
            world_text = short_path(self._world.path)
            self._screen.say(f"in another terminal: export AOS_WORLD={world_text}")
            self._screen.say("type SCHEMA JSON here to send an event; Ctrl-C to end")
        self._world.start(self._project, after_seq=after_seq)

    def _loop(self, watch: Watch) -> None:
        is_alive = True
        while is_alive and not self._options.over.is_set():
            self._take_lines(self._typed.lines(TICK_S, self._options.over))
            try:
                is_alive = self._world.hear()
            except NoExecutors as problem:
                self._go_on_without(problem)
            self._world.tell()
            changes = None if self._options.until_idle else watch.changes()
            if changes is not None:
                self._take_changes(changes)
            self._take_build()

    def _go_on_without(self, problem: NoExecutors) -> None:
        self._screen.problem(problem)
        self._screen.say("the world runs without executors; effects wait until they are fixed")
        self._world.restart(self._project, has_executors=False)

    # Typed lines

    def _take_lines(self, lines: Iterator[str]) -> None:
        for line in lines:
            try:
                self._take(parse_line(line))
            except NoExecutors as problem:
                self._go_on_without(problem)
            except Stopped:
                raise
            except AosError as problem:
                self._code = self._code or (problem.exit_code if self._options.until_idle else 0)
                self._screen.problem(problem)

    def _take(self, request: Item | Command | None) -> None:
        match request:
            case None:
                pass
            case Command.FRESH:
                self._begin_afresh()
            case Command.QUIT:
                self._options.over.set()
            case Command.HELP:
                self._screen.say("SCHEMA JSON: send an event; fresh: start an empty world; quit")
            case Item():
                self._send(request)

    def _send(self, item: Item) -> None:
        """Send an event. Raises Refused."""
        self._world.wait_until_it_listens()
        with open_writer(self._world.path) as writer:
            [answer] = writer.send([item], batch_items=1)
        if isinstance(answer, Refusal):
            raise Refused(answer.message)
        if isinstance(answer, Admitted) and not answer.to:
            self._screen.note(f"record {answer.seq}: no workflow subscribes to this event")

    def _begin_afresh(self) -> None:
        self._world.stop()
        prepare(self._world.path, fresh=True)
        self._screen.say("an empty world")
        try:
            if self._built is not None:
                put_in_force(self._world.path, self._built, self._screen)
        finally:
            self._world.start(self._project, after_seq=self._last())

    def _last(self) -> int:
        """The last record of the world, which must not be running."""
        with open_reader(self._world.path) as reader:
            return reader.seq

    # Changed files

    def _take_changes(self, changes: Changes) -> None:
        if changes.effects:
            self._screen.say(f"{names_text(changes.effects)} changed: restarting executors")
            self._world.restart(self._project)
        if changes.sources:
            self._screen.say(f"{names_text(changes.sources)} changed: building")
            self._is_stale = True

    def _take_build(self) -> None:
        """Start a build if one is due, or take the result of a finished one."""
        if self._builder is None:
            if self._is_stale:
                self._is_stale = False
                self._builder = Builder(self._project.folder, self._console)
            return
        result = self._builder.result()
        if result is None:
            return
        self._builder = None
        try:
            if isinstance(result, AosError):
                raise result
            self._take_built(result)
        except NoExecutors as problem:
            self._go_on_without(problem)
            self._is_stale = True
        except AosError as problem:
            self._screen.problem(problem)
            self._screen.say("the previous version keeps running")

    def _take_built(self, built: Built) -> None:
        """Apply a build. Raises AosError if that fails: the previous version keeps running."""
        previous, self._project = self._project, built.project
        if built.project.world != previous.world:
            self._screen.note("the changed world in aos.toml is used from the next aos dev on")
        self._built = built
        self._screen.built(built)
        if built.project.executors != previous.executors:
            self._world.restart(built.project)
        self._world.wait_until_it_listens()
        put_in_force(self._world.path, built, self._screen)
        if self._world.lacks_executors:  # the build may define an effect of theirs
            self._world.restart(built.project)


class Builder:
    """A build in the background of ``aos dev``, in its own thread."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._results: queue.SimpleQueue[Built | AosError] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(folder, console))
        self._thread.start()

    def _run(self, folder: Path, console: Console) -> None:
        try:
            self._results.put(build(read_project(folder), console=console))
        except AosError as problem:
            self._results.put(problem)

    def result(self) -> Built | AosError | None:
        """The build, or why it failed; None while it runs. Other exceptions are raised here.

        Raises:
            RuntimeError: The thread has ended without a result.
        """
        is_alive = self._thread.is_alive()
        try:
            return self._results.get_nowait()
        except queue.Empty:
            if not is_alive:
                raise RuntimeError("the build ended without a result") from None
            return None

    def join(self) -> None:
        self._thread.join()

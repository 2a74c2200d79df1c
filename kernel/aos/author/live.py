"""Run the scratch world of ``aos dev`` in its own process, and print traces of its records
(spec/authoring.md, AU-85, AU-86).

New records are followed and printed once no more arrive for a moment, as part of their causal tree:
an event with its consequences, a receipt below the effect that it settles.
"""

# ruff: noqa: S603  # it starts our own module
from __future__ import annotations

import contextlib
import difflib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final

from aos.author.project import Project, short_path
from aos.author.screen import Options, Screen
from aos.author.toolchain import Stopped
from aos.author.world_child import Order
from aos.closable import Closable
from aos.core.journal.record_codec import from_bytes
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable, sentence
from aos.host.executors.pool import ALIKE
from aos.host.folder.reader import open_reader
from aos.host.stamps import now_ns
from aos.read.trace.render import Branch, lines
from aos.read.trace.trace import trace
from aos.read.trace.trace_tree import Node
from aos.read.views.view import View

Message = Mapping[str, Any]

SHORT_S: Final = 0.02

ENDS_S: Final = 10.0
"""Time that the process has to stop cleanly."""

_ERRORS_BY_CODE: Final = {
    error_class.exit_code: error_class for error_class in (Refused, BadUsage, Damage, Unavailable)
}

LINE_COLUMNS: Final = 120
"""Columns of a line of a trace, if its values can be cut to fit."""

REST_S: Final = 0.25
"""Time without new records after which they are returned."""

LONGEST_S: Final = 2.0
"""Time after which they are returned in any case."""

TRACES_MAX: Final = 10
"""Maximum number of trees returned together."""

ABOVE_MAX: Final = 2
"""How many causes above a new record are shown: the root, and the effect that it answers."""

NODES_MAX: Final = 60
"""Maximum number of branches of a tree."""

TOLD: Final = frozenset(
    {"event", "receipt", "kernel_receipt", "stream", "control", "step", "fault"}
)
"""Kinds of records that begin a tree, unless they belong to an earlier one."""


class NoExecutors(AosError):
    """The world does not start with its executors; it may start without them."""


@dataclass(slots=True)
class _Life:
    """One run of the process, and its progress."""

    process: WorldProcess
    has_executors: bool
    wants_them: bool
    is_started: bool = False
    unasked: tuple[str, ...] = ()
    lacking: set[str] = field(default_factory=set)


class LiveWorld:
    """The world at ``path``, running or not. While it runs, only its process writes to it; here the
    store is open for reading."""

    def __init__(self, path: Path, options: Options, screen: Screen) -> None:
        self.path = path
        self._options = options
        self._screen = screen
        self._life: _Life | None = None
        self._follower: TraceFollower | None = None
        self._end: AosError | None = None

    @property
    def lacks_executors(self) -> bool:
        """Whether it runs without the executors of the project."""
        return self._life is not None and not self._life.has_executors and self._life.wants_them

    def start(self, project: Project, *, after_seq: int, has_executors: bool = True) -> None:
        """Start the process. Traces of the records after ``after_seq`` are printed."""
        options = self._options
        has_executors = has_executors and bool(project.executors)
        order = Order(
            world=str(self.path),
            executors=_executor_specs(project) if has_executors else (),
            allow_http=options.allow_http,
            secrets=None if options.secrets is None else str(options.secrets),
            host_root=None if options.host_root is None else str(options.host_root),
            until_idle=options.until_idle,
        )
        self._life = _Life(WorldProcess(order), has_executors, bool(project.executors))
        if self._follower is None:
            self._follower = TraceFollower(self.path, after_seq=after_seq)

    def restart(self, project: Project, *, has_executors: bool = True) -> None:
        """Restart it with the present executors, which get the open effects again."""
        self._stop_process()
        after_seq = 0 if self._follower is None else self._follower.reported_seq
        self.start(project, after_seq=after_seq, has_executors=has_executors)

    def stop(self) -> None:
        """Stop it cleanly, and print the remaining traces."""
        self._stop_process()
        if self._follower is not None:
            self.tell(at_once=True)
            self._follower.close()
            self._follower = None

    def wait_until_it_listens(self) -> None:
        """Wait until the process accepts input.

        Raises:
            Stopped: ``aos dev`` is ending.
            AosError: As ``hear``.
        """
        while self._life is not None and not self._life.is_started:
            self.hear()
            if self._options.over.wait(SHORT_S):
                raise Stopped("the world was stopped")

    def hear(self) -> bool:
        """Process new messages. Return False if the process has ended as expected.

        Raises:
            NoExecutors: The process does not start with its executors.
            AosError: The process has failed.
        """
        if self._end is not None:
            raise self._end
        life = self._life
        if life is None:
            return True
        has_ended = life.process.has_ended
        for message in life.process.messages():
            match message:
                case {"started": int(seq)}:
                    life.is_started = True
                    if not self._options.until_idle:
                        self._screen.say(f"running {short_path(self.path)} from record {seq}")
                case {"failed": str(text), "code": int(code)}:
                    if life.has_executors and not self._options.until_idle:
                        self._stop_process()
                        raise NoExecutors(text)
                    raise self._ended(_ERRORS_BY_CODE.get(code, Refused)(text))
                case {"unasked": list(unasked), "known": list(known), "lacking": list(lacking)}:
                    self._tell_unasked(life, unasked, known)
                    self._tell_lacking(life, lacking)
                case {"ended": {"waiting": dict(waiting)}}:
                    for effect, number in waiting.items():
                        self._screen.note(
                            f"{number} wait for {effect}, which no executor here runs (it needs a "
                            f'function: @effect("{effect}"), in the executors of aos.toml)'
                        )
                    return False
                case _:
                    self._note(message)
        if has_ended:
            problem = f"the process of the world ended by itself (code {life.process.code})"
            raise self._ended(Unavailable(problem))
        return True

    def _tell_lacking(self, life: _Life, lacking: Sequence[str]) -> None:
        """Print once what effects of the manifest need and this process lacks."""
        for line in lacking:
            if line not in life.lacking:
                life.lacking.add(line)
                self._screen.note(f"effects stay open that need this: {line}")

    def _tell_unasked(
        self, life: _Life, unasked: Sequence[str], known_effects: Sequence[str]
    ) -> None:
        """Report effects of the executors that the manifest lacks: once for each process, and again
        if they change."""
        previous, life.unasked = life.unasked, tuple(unasked)
        if life.unasked != previous:
            for effect in unasked:
                self._screen.problem(BadUsage(_unasked_text(effect, known_effects)))

    def _ended(self, problem: AosError) -> AosError:
        """Record that the process has failed. Later calls raise the same error."""
        self._end = problem
        self.stop()
        return problem

    def tell(self, *, at_once: bool = False) -> None:
        """Print traces of new records, once no more arrive."""
        is_started = self._life is not None and self._life.is_started
        if self._follower is None or not (is_started or at_once):
            return
        for news in self._follower.news(at_once=at_once):
            if isinstance(news, str):
                self._screen.note(news)
            else:
                self._screen.trace(news)

    def _stop_process(self) -> None:
        if self._life is None:
            return
        life, self._life = self._life, None
        life.process.stop()
        for message in life.process.messages():
            self._note(message)

    def _note(self, message: Message) -> None:
        if "note" in message:
            self._screen.note(str(message["note"]))


def _unasked_text(effect: str, known_effects: Sequence[str]) -> str:
    near = difflib.get_close_matches(effect, known_effects, n=1, cutoff=ALIKE)
    return sentence(
        f'@effect("{effect}") is not in the manifest, so no workflow requests it',
        expected="one of " + ", ".join(known_effects) if known_effects else "no effect of your own",
        hint=f"did you mean {near[0]}?"
        if near
        else "fix the name, or define the effect and have a workflow request it",
    )


def _executor_specs(project: Project) -> list[str]:
    """The project's executors in the form of ``--executors``, with absolute paths."""
    specs = []
    for spec in project.executors:
        source, _, attribute = spec.rpartition(":")
        is_file = source.endswith(".py")
        specs.append(f"{project.folder / source}:{attribute}" if is_file else spec)
    return specs


class WorldProcess:
    """A running ``aos.author.world_child`` (AU-85). Its own thread reads the messages."""

    def __init__(self, order: Order) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, *QUICK_PROGRAM, "aos.author.world_child", order.to_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C must not reach it: we stop it in order
        )
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._listener.start()

    def messages(self) -> Iterator[Message]:
        """The messages since the last call."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._messages.get_nowait()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and all its messages have been received."""
        return not self._listener.is_alive() and self._process.poll() is not None

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; kill it if that takes too long."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                try:
                    message = json.loads(line)
                except ValueError:
                    message = line.decode(errors="replace").rstrip()
                if not isinstance(message, dict):
                    message = {"note": str(message)}
                self._messages.put(message)


class TraceFollower(Closable):
    """Reads the journal of a world while another process runs it."""

    def __init__(self, world: Path, *, after_seq: int | None = None) -> None:
        self._reader = open_reader(world)
        self._reported_seq = self._reader.seq if after_seq is None else after_seq
        self._head_seq = self._reported_seq
        self._seen_at = self._began_at = time.monotonic()

    @property
    def reported_seq(self) -> int:
        """The last record that was returned."""
        return self._reported_seq

    def news(self, *, at_once: bool = False) -> Iterator[tuple[Branch, ...] | str]:
        """Traces of new records, and a line if some are left out; nothing while records arrive.

        ``at_once``: do not wait for a pause.
        """
        now = time.monotonic()
        head = self._reader.store.head()
        last = 0 if head is None else head.seq
        if last > self._head_seq:
            self._began_at = now if self._head_seq == self._reported_seq else self._began_at
            self._head_seq, self._seen_at = last, now
        if self._head_seq == self._reported_seq:
            return
        is_time = now - self._seen_at >= REST_S or now - self._began_at >= LONGEST_S
        if is_time or at_once:
            yield from self._tell()

    def _tell(self) -> Iterator[tuple[Branch, ...] | str]:
        first, self._reported_seq = self._reported_seq + 1, self._head_seq
        self._reader.refresh()
        view = View(self._reader.state, self._reader.store, now_ns=now_ns())
        view.spell()
        covered: set[int] = set()
        left_out = number = 0
        for seq in self._first(first, self._reported_seq):
            if seq in covered:
                continue
            if number == TRACES_MAX:
                left_out += 1
                continue
            number += 1
            tree = trace(view, [str(seq)], nodes_max=NODES_MAX)
            covered |= _sequences(tree.roots)
            yield tuple(map(shortened, lines(tree, width=LINE_COLUMNS)))
        if left_out:
            yield f"… and {left_out} more (see aos inspect journal)"

    def _first(self, first: int, last: int) -> Iterator[int]:
        for frame in self._reader.store.frames(first, last):
            for seq, data in enumerate(frame.records, frame.header.first):
                if first <= seq <= last and from_bytes(data).KIND in TOLD:
                    yield seq

    def close(self) -> None:
        self._reader.close()


def shortened(root: Branch) -> Branch:
    """A tree without the middle of the path from its root to the new records, shown before."""
    path = _way_to_target(root)
    if len(path) <= ABOVE_MAX + 1:
        return root
    number = len(path) - ABOVE_MAX - 1
    gap = Branch(kind="left_out", text=f"… {number} more on the way", children=(path[-2],))
    return replace(root, children=(gap,))


def _way_to_target(root: Branch) -> list[Branch]:
    """The path from the root to the marked branch; empty without one. It does not recurse, because
    a trace may be deeper than Python's stack."""
    came_from: dict[int, Branch] = {}
    todo = [root]
    while todo:
        branch = todo.pop()
        if branch.is_target:
            path = [branch]
            while (above := came_from.get(id(path[-1]))) is not None:
                path.append(above)
            return path[::-1]
        for child in branch.children:
            came_from[id(child)] = branch
            todo.append(child)
    return []


def _sequences(roots: Iterable[Node]) -> set[int]:
    seqs, todo = set(), list(roots)
    while todo:
        node = todo.pop()
        seqs.add(node.seq)
        todo.extend(node.children)
    return seqs

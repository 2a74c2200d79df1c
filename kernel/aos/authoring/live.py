"""The scratch world while ``aos dev`` runs it: its process, and the traces of what it does
(spec/authoring.md, AU-85, AU-86)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.authoring.follow import Follower
from aos.authoring.project import Project
from aos.authoring.running import Stopped
from aos.authoring.screen import Options, Screen
from aos.authoring.world_child import Order
from aos.authoring.world_process import Message, WorldProcess
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable, sentence
from aos.host.executors.pool import ALIKE

SHORT_S: Final = 0.02

_KINDS: Final = {each.exit_code: each for each in (Refused, BadUsage, Damage, Unavailable)}


@dataclass(slots=True)
class _Life:
    """One process, and how far it has come."""

    process: WorldProcess
    has_executors: bool
    wants_them: bool
    is_started: bool = False
    unasked: tuple[str, ...] = ()


class LiveWorld:
    """The world at ``path``, run or not. While it runs it is written through its process alone: the
    store is open here to be read."""

    def __init__(self, path: Path, options: Options, screen: Screen) -> None:
        self.path = path
        self._options = options
        self._screen = screen
        self._life: _Life | None = None
        self._follower: Follower | None = None
        self._end: AosError | None = None

    @property
    def lacks_executors(self) -> bool:
        """Whether it runs without those that it should have."""
        return self._life is not None and not self._life.has_executors and self._life.wants_them

    def start(self, project: Project, *, after: int, has_executors: bool = True) -> None:
        """Run it; the traces of what comes after record ``after`` are told."""
        options = self._options
        has_executors = has_executors and bool(project.executors)
        order = Order(
            world=str(self.path),
            executors=_executors(project) if has_executors else (),
            allow_http=options.allow_http,
            secrets=None if options.secrets is None else str(options.secrets),
            until_idle=options.until_idle,
        )
        self._life = _Life(WorldProcess(order), has_executors, bool(project.executors))
        if self._follower is None:
            self._follower = Follower(self.path, after=after)

    def restart(self, project: Project, *, has_executors: bool = True) -> None:
        """Run it with the executors as they are now. What is open is handed to them again."""
        self._stop_process()
        after = 0 if self._follower is None else self._follower.told
        self.start(project, after=after, has_executors=has_executors)

    def stop(self) -> None:
        """Stop it cleanly, and tell what there still is to be told."""
        self._stop_process()
        if self._follower is not None:
            self.tell(at_once=True)
            self._follower.close()
            self._follower = None

    def wait_until_it_listens(self) -> None:
        """For who is about to write.

        Raises:
            Stopped: It is over.
            AosError: As ``hear``.
        """
        while self._life is not None and not self._life.is_started:
            self.hear()
            if self._options.over.wait(SHORT_S):
                raise Stopped("the world was stopped")

    def hear(self) -> bool:
        """Take what the process says. False when that was its last, as it should be.

        Raises:
            NoExecutors: It does not run with its executors.
            AosError: It does not run.
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
                        self._screen.say(f"running {shown(self.path)} from record {seq}")
                case {"failed": str(text), "code": int(code)}:
                    if life.has_executors and not self._options.until_idle:
                        self._stop_process()
                        raise NoExecutors(text)
                    raise self._ended(_KINDS.get(code, Refused)(text))
                case {"unasked": list(unasked), "known": list(known)}:
                    self._tell_unasked(life, unasked, known)
                case {"ended": {"waiting": dict(waiting)}}:
                    for effect, number in waiting.items():
                        self._screen.note(
                            f"{number} wait for {effect}, which nobody here runs (it needs a "
                            f'function: @effect("{effect}"), in the executors of aos.toml)'
                        )
                    return False
                case _:
                    self._note(message)
        if has_ended:
            problem = f"the process of the world ended by itself (code {life.process.code})"
            raise self._ended(Unavailable(problem))
        return True

    def _tell_unasked(self, life: _Life, unasked: Sequence[str], known: Sequence[str]) -> None:
        """Effects of the executors that the manifest does not have: told once for each process,
        and again when they are others."""
        before, life.unasked = life.unasked, tuple(unasked)
        if life.unasked != before:
            for effect in unasked:
                self._screen.problem(BadUsage(_unasked(effect, known)))

    def _ended(self, problem: AosError) -> AosError:
        """It does not run, and there is nothing that would help: whoever asks is told so."""
        self._end = problem
        self.stop()
        return problem

    def tell(self, *, at_once: bool = False) -> None:
        """Tell the traces of what came, once it has come to rest."""
        is_started = self._life is not None and self._life.is_started
        if self._follower is None or not (is_started or at_once):
            return
        for found in self._follower.news(at_once=at_once):
            if isinstance(found, str):
                self._screen.note(found)
            else:
                self._screen.trace(found)

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


class NoExecutors(AosError):
    """The world does not run with its executors; without them it may."""


def _unasked(effect: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(effect, known, n=1, cutoff=ALIKE)
    return sentence(
        f'@effect("{effect}") is not in the manifest, so that nothing asks for it',
        expected="one of " + ", ".join(known) if known else "no effect of your own",
        hint=f"did you mean {near[0]}?"
        if near
        else "mend the name, or define the effect and have a workflow ask for it",
    )


def _executors(project: Project) -> list[str]:
    """As ``--executors`` takes them, from wherever this runs."""
    found = []
    for spec in project.executors:
        source, _, attribute = spec.rpartition(":")
        is_file = source.endswith(".py")
        found.append(f"{project.folder / source}:{attribute}" if is_file else spec)
    return found


def shown(path: Path) -> str:
    """Relative to where we are, where that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)

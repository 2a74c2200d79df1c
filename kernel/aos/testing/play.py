"""Play a scenario and report its result (spec/testing.md, T-61 to T-66), and play a story once for
each of its steps, with a crash right after that step (T-36).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from aos.testing.effects import Effect, only
from aos.testing.expectations import Differs, Expectations
from aos.testing.plain import START, Mismatch, matches, mismatches
from aos.testing.problems import InputRefused, WorldProblem
from aos.testing.scenario import Scenario, ScenarioStep
from aos.testing.scripts import NEVER, After, Fail, Timeout, in_turn, response
from aos.testing.sources import Source
from aos.testing.words import WORDS
from aos.testing.world import World

PROJECT: Final = "aos.toml"

PLACES_SAID: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFailure:
    """The first step that failed, and the ``mismatches`` that differ. ``step`` is None if the world
    could not be created, or its replay failed."""

    step: ScenarioStep | None
    message: str
    mismatches: tuple[Mismatch, ...] = ()
    expected: object = None
    actual: object = None
    trace: str = ""

    def to_document(self) -> dict[str, object]:
        return {
            "step": None if self.step is None else self.step.number,
            "line": None if self.step is None else self.step.line,
            "word": None if self.step is None else self.step.word,
            "message": self.message,
            "places": [
                {"path": mismatch.path, "expected": mismatch.expected, "found": mismatch.actual}
                for mismatch in self.mismatches
            ],
            "expected": self.expected,
            "found": self.actual,
            "trace": self.trace,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The result of a scenario. ``records`` is the number of records of its world's journal."""

    scenario: Scenario
    failure: ScenarioFailure | None
    records: int
    seconds: float

    @property
    def location(self) -> str:
        """``FILE:LINE`` of the failed step."""
        step = None if self.failure is None else self.failure.step
        line = "" if step is None or step.line is None else f":{step.line}"
        return f"{self.scenario.path}{line}"

    def to_document(self) -> dict[str, object]:
        return {
            "path": str(self.scenario.path),
            "about": self.scenario.about,
            "ok": self.failure is None,
            "steps": len(self.scenario.steps),
            "records": self.records,
            "seconds": round(self.seconds, 6),
            "failure": None if self.failure is None else self.failure.to_document(),
        }


def play(scenario: Scenario) -> Played:
    """Play the steps up to the first one that fails. Never raises an error that a scenario can
    cause: it is in the result."""
    began = time.perf_counter()
    failure, world = _played(scenario, 0)
    records = 0 if world is None else world.records
    if scenario.crashes and world is not None and failure is None:
        failure = _with_crashes(scenario, world)
    return Played(
        scenario=scenario, failure=failure, records=records, seconds=time.perf_counter() - began
    )


def _played(scenario: Scenario, crash: int) -> tuple[ScenarioFailure | None, World | None]:
    """Play a scenario with a crash after that step (0: without one); return its failure, and its
    world, which is closed."""
    try:
        world = _new_world(scenario)
    except AosError as problem:
        return ScenarioFailure(step=None, message=str(problem)), None
    if scenario.crashes:
        world.crash_after(crash)
    return _Player(world, scenario.path.parent).play(scenario), world


def _with_crashes(scenario: Scenario, uncrashed_world: World) -> ScenarioFailure | None:
    """Play a scenario again with a crash after each of its steps; return the first failure."""
    expected = outcome(uncrashed_world)
    for step in range(1, uncrashed_world.steps + 1):
        failure, world = _played(scenario, step)
        if failure is not None:
            message = (
                f"with a crash after step {step} of {uncrashed_world.steps}: {failure.message}"
            )
            return replace(failure, message=message)
        assert world is not None, "else it has failed"
        changes = differences(expected, outcome(world))
        if changes:
            return ScenarioFailure(
                step=None,
                message=changed(step, uncrashed_world.steps, changes),
                mismatches=changes,
                trace=world.trace(),
            )
    return None


def project_of(path: Path) -> Path | None:
    """The nearest project folder at or above ``path``; None without one."""
    path = path.resolve()
    return next((folder for folder in (path, *path.parents) if (folder / PROJECT).is_file()), None)


def manifest_of(scenario: Scenario) -> Path:
    """The path of the manifest that a scenario uses: the one it names, else its project's."""
    folder = scenario.path.parent
    home = project_of(folder) or folder
    return home if scenario.manifest is None else _first_path(scenario.manifest, folder, home)


def _new_world(scenario: Scenario) -> World:
    folder = scenario.path.parent
    home = project_of(folder) or folder
    return World(
        manifest_of(scenario),
        now=START if scenario.now is None else scenario.now,
        abi=scenario.abi,
        seed="aos" if scenario.seed is None else scenario.seed,
        executors=[_executors(spec, folder, home) for spec in scenario.executors],
        replay=scenario.replay,
    )


def _first_path(name: str, *folders: Path) -> Path:
    """The path ``name`` in the first of the folders that has it."""
    return next(
        (folder / name for folder in folders if (folder / name).exists()), folders[0] / name
    )


def _executors(spec: str, folder: Path, home: Path) -> str:
    file, colon, attribute = spec.rpartition(":")
    if not file.endswith(".py"):
        return spec
    return f"{_first_path(file, folder, home)}{colon}{attribute}"


class _Player:
    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self._expectations = Expectations(world)
        self._words: dict[str, Callable[[ScenarioStep], object]] = {
            "send": self._send,
            "run": lambda step: world.run(may_fail=_may_fail(step)),
            "advance": lambda step: world.advance(step.value, may_fail=_may_fail(step)),
            "advance_to": lambda step: world.advance_to(step.value, may_fail=_may_fail(step)),
            "finish": lambda step: world.finish(step.value, may_fail=_may_fail(step)),
            "answer": self._answer,
            "fail": self._fail,
            "timeout": lambda step: self._open(step).timeout(
                step.fields.get("message", ""), after=step.fields.get("after", 0)
            ),
            "cancel": lambda step: self._open(step).cancel(),
            "begin": lambda step: self._open(step).begin(),
            "misfit": lambda step: self._open(step).answer_badly(),
            "forge": lambda step: self._open(step).forge(step.fields.get("value")),
            "duplicate": lambda step: self._settled(step).duplicate(),
            "frame": lambda step: self._open(step).frame(
                step.fields["kind"], step.fields.get("payload")
            ),
            "on": self._on,
            "retry": lambda step: world.retry(step.value, step.fields.get("key")),
            "skip": lambda step: world.skip(step.value, step.fields.get("key")),
            "restart": lambda _: world.restart(),
            "snapshot": lambda _: world.snapshot(),
            "erase": lambda step: world.erase(world.hash_of(step.value, step.fields["value"])),
            "apply": self._apply,
            "expect": self._expectations.check,
        }

    def play(self, scenario: Scenario) -> ScenarioFailure | None:
        failure = self._steps(scenario.steps)
        try:
            if failure is None:
                self._world.close()
        except AosError as problem:
            failure = ScenarioFailure(step=None, message=str(problem), trace=self._world.trace())
        finally:
            self._world.abandon()
        return failure

    def _steps(self, steps: Iterable[ScenarioStep]) -> ScenarioFailure | None:
        for step in steps:
            try:
                self._do(step)
            except Differs as differs:
                return ScenarioFailure(
                    step=step,
                    message=str(differs),
                    mismatches=differs.mismatches,
                    expected=differs.expected,
                    actual=differs.actual,
                    trace=self._world.trace(),
                )
            except AosError as problem:
                return ScenarioFailure(step=step, message=str(problem), trace=self._world.trace())
        return None

    def _do(self, step: ScenarioStep) -> None:
        rule = step.fields.get("refused")
        try:
            self._words[step.word](step)
        except InputRefused as refused:
            if rule is None:
                raise
            if rule != refused.rule:
                raise Differs([Mismatch("refused", rule, f"{refused}")]) from refused
        else:
            if rule is not None:
                raise Differs([Mismatch("refused", rule, "it was accepted")])
        if WORDS[step.word].runs and not step.fields.get("hold", False):
            self._world.run(may_fail=_may_fail(step))

    # Inputs

    def _send(self, step: ScenarioStep) -> None:
        self._world.send(step.value, step.fields.get("value", {}), id=step.fields.get("id"))

    def _answer(self, step: ScenarioStep) -> None:
        self._open(step).answer(
            _value(step.fields),
            after=step.fields.get("after", 0),
            cost_cents=step.fields.get("cost_cents"),
        )

    def _fail(self, step: ScenarioStep) -> None:
        self._open(step).fail(
            step.fields["code"],
            step.fields.get("message", ""),
            retryable=step.fields.get("retryable", False),
            after=step.fields.get("after", 0),
        )

    def _on(self, step: ScenarioStep) -> None:
        scripts = [_script(answer) for answer in step.fields["answers"]]
        self._world.on(step.value, in_turn(*scripts[:-1], then=scripts[-1]))

    def _apply(self, step: ScenarioStep) -> None:
        self._world.apply(
            self._folder / step.value,
            mode=step.fields.get("mode", "strict"),
            leave=step.fields.get("leave", ()),
        )

    def _open(self, step: ScenarioStep) -> Effect:
        """The only open effect that matches the step."""
        effects = self._matching_effects(self._world.effects(step.value), step)
        return only(effects, step.value, [*self._world.effects(), *self._world.timers()])

    def _settled(self, step: ScenarioStep) -> Effect:
        effects = self._matching_effects(self._world.asked(step.value), step)
        over = [effect for effect in effects if not effect.is_open]
        if not over:
            raise WorldProblem(f"no settled effect matches {step.value}")
        return over[-1]

    def _matching_effects(self, effects: list[Effect], step: ScenarioStep) -> list[Effect]:
        names = ("workflow", "key", "issuer_ref", "params")
        pattern = {name: step.fields[name] for name in names if name in step.fields}
        if "workflow" in pattern:
            pattern["workflow"] = self._world.workflow(pattern["workflow"])
        return [effect for effect in effects if matches(pattern, self._expectations.effect(effect))]


def _may_fail(step: ScenarioStep) -> bool:
    return bool(step.fields.get("may_fail", False))


def _value(answer: Mapping[str, Any]) -> object:
    """The receipt of an answer that settles its effect with ``ok``."""
    if "response" not in answer:
        return answer.get("value")
    http_response = answer["response"]
    body = http_response.get("body", "").encode()
    return response(
        http_response.get("status", 200),
        json=http_response.get("json"),
        body=body,
        headers=http_response.get("headers"),
    )


def _script(answer: Mapping[str, Any]) -> object:
    script: object = _value(answer)
    if "fail" in answer:
        script = Fail(answer["fail"], answer.get("message", ""), answer.get("retryable", False))
    elif "timeout" in answer:
        script = Timeout(answer.get("message", ""))
    elif "never" in answer:
        script = NEVER
    return After(answer["after"], script) if "after" in answer else script


def everywhere(story: Callable[[World], object], source: Source = ".", **settings: Any) -> int:
    """Play ``story`` in a world of its own without a crash, then once for each step of it, with a
    crash right after that step. Return the number of crashes.

    Args:
        story: Gets the world. It must do the same each time, and may contain assertions.
        source: The manifest, as for ``World``.
        settings: The other parameters of ``World``.

    Raises:
        WorldProblem: The states, events or effects at the end differ from those without a crash.
        Exception: Any that the story raises, with a note that names the crash.
    """
    with World(source, **settings) as world:
        world.crash_after(0)
        story(world)
        steps, expected = world.steps, outcome(world)
    for step in range(1, steps + 1):
        with World(source, **settings) as world:
            world.crash_after(step)
            try:
                story(world)
            except Exception as problem:
                problem.add_note(f"with a crash after step {step} of {steps}")
                raise
            changes = differences(expected, outcome(world))
            if changes:
                raise WorldProblem(changed(step, steps, changes))
    return steps


def outcome(world: World) -> dict[str, Any]:
    """Return what a story left: the states of all cells, the events that steps emitted, and the
    effects that they requested, each in order."""
    return {
        "states": [
            {"workflow": cell.workflow, "key": cell.key, "status": cell.status, "state": cell.state}
            for cell in world.cells()
        ],
        "events": [
            {
                "schema": event.schema,
                "value": event.value,
                "workflow": event.workflow,
                "key": event.key,
            }
            for event in world.emitted()
        ],
        "effects": [
            {
                "effect": effect.name,
                "params": effect.params,
                "workflow": effect.workflow,
                "key": effect.key,
                "issuer_ref": effect.issuer_ref,
                "requested_key": effect.requested_key,
                "status": effect.status,
            }
            for effect in world.asked()
        ],
    }


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> tuple[Mismatch, ...]:
    """Return the places where two outcomes differ."""
    return tuple(mismatches(expected, actual, exactly=True))


def changed(step: int, steps: int, changes: tuple[Mismatch, ...]) -> str:
    """Return the message about a crash that changed the outcome."""
    mismatch_texts = "; ".join(str(mismatch) for mismatch in changes[:PLACES_SAID])
    suffix = f"; and {len(changes) - PLACES_SAID} places more" if len(changes) > PLACES_SAID else ""
    return (
        f"a crash after step {step} of {steps} changes what happens (expected: without a crash): "
        f"{mismatch_texts}{suffix}"
    )

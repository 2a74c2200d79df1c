"""A whole world in memory, for tests (spec/testing.md).

world = World("manifests/orders")
world.send("shop/OrderPlaced@1", {...})
world.run()
world.effect("shop/card.charge@1").answer({...})
world.run()
assert world.status("shop/order@1", "ord-1") == "completed"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, Unpack

from aos.core.decide.answers import Admitted, Duplicate
from aos.core.journal.governing import REJECT, WITHDRAW
from aos.core.journal.inputs import CANCEL, ERASE, RETRY, SKIP, STRICT, EventInput
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import MODES
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage, sentence
from aos.host.apply.commands import sign_control
from aos.manifest.effective import Effective
from aos.manifest.names import LINEAR, SIGNAL, TIMER
from aos.manifest.plans import LinearMode, chosen_plan, context_of, start_event
from aos.manifest.schedule_setting import set_value
from aos.manifest.schedules import SCHEDULE, SET, schedule_of
from aos.manifest.sealed_places import sealing_problem
from aos.prove.replay.replay_report import ReplayReport
from aos.read.lens.lookup import find_effect, find_workflow
from aos.read.lens.words import span_text, time_text
from aos.read.views.journal_view import read_value_hash
from aos.read.views.linear_view import document_of
from aos.read.views.schedule_view import schedule_document
from aos.testing import governing, views
from aos.testing.desk import Desk, core_of_test
from aos.testing.dispatch import Dispatch
from aos.testing.effects import Effect, EffectFilters, matching_effects, only
from aos.testing.functions import Functions, Given, read
from aos.testing.governing import ProposalSeen
from aos.testing.plain import START, Span, Time, canonical, read_span, read_time
from aos.testing.problems import CellFailed, FaultSeen, WorldProblem
from aos.testing.sources import OPERATOR_KEY, OPERATOR_NAME, Source, loaded
from aos.testing.views import LAST, Flow, flow_document, flow_of, seen_flow, trace
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.results import to_value

ROUNDS_MAX: Final = 100_000
"""Answers and timers at one moment, after which ``run`` gives up: the world never becomes idle."""


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise BadUsage(f"mode: expected one of {', '.join(MODES)}, found {mode!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An admitted event: its record ``seq``, and the cells ``to`` that it reaches, as ``(workflow,
    key)``. With ``is_duplicate`` an event with the same submission id was admitted before as record
    ``seq``, and ``to`` is empty.
    """

    seq: int
    to: tuple[tuple[str, Any], ...] = ()
    is_duplicate: bool = False


class World:
    """A world in memory. It must not be used by two threads at the same time.

    Args:
        source: A manifest: its path, its nodes, or a loaded one (T-2).
        modules: The bytes of modules by name, if ``source`` is a list of nodes.
        abi: ABI assumed for modules that declare none, as in ``aos apply --abi``.
        now: Initial time of the clock.
        seed: Seed of all randomness.
        executors: As for ``use``.
        secrets: Values for ``ctx.secret``, by the names of their definitions (T-25b).
        core: The core that runs the world, ``python`` or ``fast`` (T-8). Default: that of
            ``AOS_CORE``.
        replay: Whether ``close`` replays the journal.

    Raises:
        BadUsage: The manifest does not exist, or ``core`` or ``AOS_CORE`` names no core.
        ManifestProblems: The manifest is invalid.
    """

    def __init__(
        self,
        source: Source = ".",
        *,
        modules: Mapping[str, bytes] | None = None,
        abi: str | None = None,
        now: Time = START,
        seed: str = "aos",
        executors: Given | Iterable[Given] = (),
        secrets: Mapping[str, str] | None = None,
        core: str | None = None,
        replay: bool = True,
    ) -> None:
        self._dispatch = Dispatch()
        self._desk = self._dispatch.desk = Desk(
            seed=seed,
            now_ns=read_time(now),
            core=core_of_test(core),
            published=self._dispatch.published,
            over=self._dispatch.over,
        )
        self._replays = replay
        self._is_closed = False
        self._faults_reported = 0
        self.apply(source, modules=modules, abi=abi)
        self.use(executors)
        self.secrets.update(secrets or {})
        self._check_secrets()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(problem, Exception):
            problem.add_note(f"the world's journal:\n{self.trace()}")
        if kind is not None:
            self.abandon()
        self.close()

    # Inputs

    @property
    def secrets(self) -> dict[str, str]:
        """The values for ``ctx.secret``, by the names of their definitions. A change counts for the
        next attempt."""
        return self._dispatch.secrets

    def _check_secrets(self) -> None:
        unknown = sorted(self.secrets.keys() - self.manifest.secrets.keys())
        if unknown:
            raise BadUsage(
                "the manifest has no such secret",
                expected=", ".join(sorted(self.manifest.secrets)) or "no secrets",
                actual=", ".join(unknown),
            )

    @property
    def now_ns(self) -> int:
        """The clock, in ns since 1970."""
        return self._desk.now_ns

    @property
    def manifest(self) -> Effective:
        """The manifest in force."""
        return self._desk.effective

    @property
    def records(self) -> int:
        """Number of records in the journal."""
        return len(self._desk.records)

    @property
    def steps(self) -> int:
        """Number of steps so far, including those that ended with a fault."""
        return self._desk.steps

    def workflow(self, word: str) -> str:
        """The full name of a workflow; ``word`` may be a part of it (A-5). Raises: BadUsage."""
        return find_workflow(self._desk.state, word)

    def effect_name(self, word: str) -> str:
        """As ``workflow``, for an effect. Raises: BadUsage."""
        effect_names = {intent.effect.name for intent in self._desk.opened_intents.values()}
        return find_effect(self._desk.state, word, effect_names)

    def send(self, schema: str, value: object, *, id: str | None = None) -> Sent:
        """Admit an event; ``id`` is its submission id.

        Raises:
            BadUsage: The value does not fit the schema, or there is no such schema.
            InputRefused: The kernel refuses it.
        """
        self._check_open()
        data = self._canonical(schema, value, "send")
        answer = self._desk.admit(EventInput(schema=schema, value=data, submission_id=id))
        match answer:
            case Duplicate():
                return Sent(seq=answer.seq, is_duplicate=True)
            case Admitted():
                return Sent(seq=answer.seq, to=views.plain_ids(answer.to))

    def start_linear(
        self,
        plan: str,
        instance: str,
        context: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        biz_key: str | None = None,
        mode: LinearMode = "standard",
    ) -> Sent:
        """Send the event that starts an instance of a plan of the manifest (T-15a).

        Raises:
            LinearRefused: The manifest has no such plan, or an id or the context is too long.
            InputRefused: The kernel refuses the event.
        """
        step_plan = chosen_plan(self.manifest.plans, plan, version)
        context_map = context_of(context or {})
        return self.send(*start_event(step_plan, instance, context_map, biz_key=biz_key, mode=mode))

    def signal_linear(
        self, instance: str, type: str, event_id: str, payload: object = None
    ) -> Sent:
        """Send a signal to an instance; ``payload`` is a plain value. Raises: InputRefused."""
        value = {
            "instance": instance,
            "event_id": event_id,
            "type": type,
            "payload": encode(to_value(payload)),
        }
        return self.send(SIGNAL, value)

    def linear(self, instance: str) -> dict[str, Any] | None:
        """An instance as ``aos linear show --json`` has it; None if it does not exist."""
        state = self.state(LINEAR, instance)
        return None if state is None else document_of(state)

    def create_schedule(self, id: str, **definition: object) -> Sent:
        """Set a schedule; ``definition`` has the fields of a manifest's schedules (T-15b).

        Raises:
            ScheduleInvalid: It is not a schedule, or does not fit the manifest.
            InputRefused: The manifest has a schedule of this id.
        """
        entry = schedule_of({"id": id, **definition})
        return self.send(SET, set_value(entry, self.manifest.schemas, self.manifest.plans))

    def schedule(self, id: str) -> dict[str, Any] | None:
        """A schedule as ``aos schedule show --json`` has it; None if it does not exist."""
        state = self.state(SCHEDULE, id)
        return None if state is None else schedule_document(state, self.manifest.schemas)

    def run(self, *, may_fail: bool = False) -> int:
        """Run until the world is idle at this moment; return the number of steps.

        Raises:
            CellFailed: A step faulted, and ``may_fail`` is not set. The run was completed.
            WorldProblem: The world does not become idle at this moment.
        """
        self._check_open()
        steps = self._quiet()
        self._tell_faults(may_fail=may_fail)
        return steps

    def advance(self, by: Span, *, may_fail: bool = False) -> int:
        """Move the clock forward, stopping at every deadline in between. Raises as ``run``."""
        return self.advance_to(self.now_ns + read_span(by), may_fail=may_fail)

    def advance_to(self, time: Time, *, may_fail: bool = False) -> int:
        """As ``advance``, up to a time.

        Raises:
            BadUsage: The clock is past it.
            CellFailed: As ``run``.
        """
        self._check_open()
        goal = read_time(time)
        if goal < self.now_ns:
            raise BadUsage(
                "the clock does not go back",
                expected=f"{time_text(self.now_ns)} or later",
                actual=time_text(goal),
            )
        steps = self._quiet()
        while (due := self._dispatch.next_due()) is not None and due <= goal:
            self._desk.now_ns = max(self.now_ns, due)
            steps += self._quiet()
        self._desk.now_ns = goal
        steps += self._quiet()
        self._tell_faults(may_fail=may_fail)
        return steps

    def finish(self, within: Span = "365d", *, may_fail: bool = False) -> int:
        """Advance from deadline to deadline until none is left. The clock stops at the last one.

        Raises:
            WorldProblem: A deadline is later than ``within``. The clock has not passed ``within``.
            CellFailed: As ``run``.
        """
        self._check_open()
        limit = self.now_ns + read_span(within)
        steps = self._quiet()
        while (due := self._dispatch.next_due()) is not None:
            if due > limit:
                waiting = "".join(f"\n  {effect}" for effect in self._open_ones() if effect.due_ns)
                raise WorldProblem(
                    f"not finished within {span_text(read_span(within))}; still due:{waiting}"
                )
            self._desk.now_ns = max(self.now_ns, due)
            steps += self._quiet()
        self._tell_faults(may_fail=may_fail)
        return steps

    def apply(
        self,
        source: Source,
        *,
        mode: str = STRICT,
        leave: Iterable[str] = (),
        modules: Mapping[str, bytes] | None = None,
        abi: str | None = None,
        proposal: int | None = None,
    ) -> None:
        """Apply a manifest as ``aos apply`` does; one already in force changes nothing. In a
        governed world the test proposes and approves it first, unless ``proposal`` names one.

        Raises:
            BadUsage: The manifest does not exist.
            ManifestProblems: The manifest is invalid.
            InputRefused: Cells or intents listed in ``blockers`` prevent it. Nothing has changed.
        """
        self._check_open()
        _check_mode(mode)
        manifest = loaded(source, modules, abi=abi)
        self._desk.apply(manifest, mode=mode, leaves=tuple(sorted(leave)), proposal=proposal)

    def propose(
        self,
        source: Source,
        *,
        by: str = OPERATOR_NAME,
        mode: str = STRICT,
        leave: Iterable[str] = (),
        note: str | None = None,
        modules: Mapping[str, bytes] | None = None,
        abi: str | None = None,
    ) -> int:
        """Propose a manifest in a governed world, as the operator or an approver; return the record
        that names the proposal.

        Raises:
            BadUsage: The world is not governed, or there is no such approver.
            ManifestProblems: The manifest is invalid.
            InputRefused: The kernel refuses it. Nothing has changed.
        """
        self._check_open()
        _check_mode(mode)
        return governing.propose(
            self._desk, loaded(source, modules, abi=abi), by=by, mode=mode,
            leaves=tuple(sorted(leave)), note=note,
        )  # fmt: skip

    def approve(self, proposal: int, *names: str, note: str | None = None) -> None:
        """Approve a proposal in the names of these approvers; without names, in those of as many as
        its quorum still lacks. Raises as ``propose``."""
        self._check_open()
        governing.approve(self._desk, proposal, names, note)

    def reject(self, proposal: int, *names: str, note: str | None = None) -> None:
        """Reject a proposal in the names of these approvers. Raises as ``propose``."""
        self._check_open()
        for name in names:
            governing.act(self._desk, REJECT, proposal, name, note=note)

    def withdraw(self, proposal: int, *, by: str = OPERATOR_NAME) -> None:
        """Withdraw a proposal in the name of the one who proposed it. Raises as ``propose``."""
        self._check_open()
        governing.act(self._desk, WITHDRAW, proposal, by)

    def proposal(self, proposal: int) -> ProposalSeen:
        """Return the status of a proposal and who voted. Raises: BadUsage: There is none."""
        return governing.read_proposal(self._desk, proposal)

    def retry(self, workflow: str, key: object = None) -> None:
        """Retry a failed cell's faulted event at the next ``run``. Raises: InputRefused."""
        self._control(RETRY, cell=views.cell_id(self._desk, workflow, key))

    def skip(self, workflow: str, key: object = None) -> None:
        """Resume a failed cell without its faulted event. Raises: InputRefused."""
        self._control(SKIP, cell=views.cell_id(self._desk, workflow, key))

    def restart(self) -> None:
        """Crash, and recover from the last snapshot and the journal (T-16)."""
        self._check_open()
        self._dispatch.restarted(self._desk.restart())

    def crash_after(self, step: int) -> None:
        """Crash once, right after this step of the world, counted from its creation; 0: never
        (T-36a). In contrast to ``restart``, the executors survive: delayed answers still come."""
        self._check_open()
        self._desk.crash_after(step, partial(self._dispatch.restarted, keeps_answers=True))

    def snapshot(self) -> int:
        """Take a snapshot and continue from it; return the number of its record (T-18)."""
        self._check_open()
        return self._desk.snapshot()

    def hash_of(self, schema: str, value: object) -> str:
        """The hash of a value of this schema, as the journal and ``erase`` use it.

        Raises:
            BadUsage: The value does not fit the schema, or there is no such schema.
        """
        return hash_text(content_hash(self._canonical(schema, value, "hash_of")))

    def erase(self, value: str) -> int:
        """Erase the bytes of a value permanently; return the number of the record (T-19).

        Raises:
            BadUsage: ``value`` is not a hash.
            InputRefused: The value is still needed, or not in this world. Nothing has changed.
        """
        self._check_open()
        value_hash = read_value_hash(value)
        self._desk.check_erasable(value_hash)
        answer = self._control(ERASE, value=value_hash)
        self._desk.seal()
        return answer.seq

    # Effects

    def on(self, effect: str, script: object) -> None:
        """Answer an effect by a script as soon as it is requested (T-24).

        Raises:
            BadUsage: The manifest has no such effect.
        """
        self._check_open()
        self._dispatch.script(self.effect_name(effect), script)

    def use(self, executors: Given | Iterable[Given]) -> None:
        """Run the author's own effect functions in this process (T-25).

        Raises:
            BadUsage: They do not exist.
        """
        for group in read(executors):
            self._dispatch.use(Functions(group, self._dispatch.loop))

    def effects(
        self,
        name: str | None = None,
        **filters: Unpack[EffectFilters],
    ) -> list[Effect]:
        """The open effects without an executor, in the order of request. Raises: BadUsage."""
        effects = self._open_ones()
        if name is None:
            effects = [effect for effect in effects if effect.name != TIMER]
        return self._matching_effects(effects, name, filters)

    def effect(
        self,
        name: str,
        **filters: Unpack[EffectFilters],
    ) -> Effect:
        """The only open effect that matches.

        Raises:
            WorldProblem: There is not exactly one.
            BadUsage: The manifest has no such effect.
        """
        effects = self._matching_effects(self._open_ones(), name, filters)
        return only(effects, name, self._open_ones())

    def asked(
        self,
        name: str | None = None,
        **filters: Unpack[EffectFilters],
    ) -> list[Effect]:
        """All effects that were ever requested, in order. Raises: BadUsage."""
        return self._matching_effects(self._all(), name, filters)

    def timers(
        self,
        **filters: Unpack[EffectFilters],
    ) -> list[Effect]:
        """The open timers."""
        # A manifest without timers has no open ones; that is not an error of the test.
        effects = [effect for effect in self._open_ones() if effect.name == TIMER]
        return self._matching_effects(effects, None, filters)

    # Views

    def state(self, workflow: str, key: object = None) -> Any:
        """A cell's state; None if the cell does not exist. Raises: BadUsage."""
        return views.state_of(self._desk, views.cell_id(self._desk, workflow, key))

    def status(self, workflow: str, key: object = None) -> str | None:
        """A cell's status; None if the cell does not exist. Raises: BadUsage."""
        return views.status_of(self._desk, views.cell_id(self._desk, workflow, key))

    def flow(self, name: str, key: object) -> Flow | None:
        """An instance of a flow (T-35); None if it does not exist.

        Raises:
            BadUsage: There is no such flow, or the key does not fit it.
            WorldProblem: Its state cannot be read.
        """
        flow = seen_flow(self._desk, name, key)
        return None if flow is None else flow_of(flow)

    def flow_json(self, name: str, key: object) -> dict[str, Any] | None:
        """The same as JSON, as ``aos flow show --json`` has it (A-3a), and the name of the flow."""
        flow = seen_flow(self._desk, name, key)
        return None if flow is None else flow_document(self._desk, flow)

    def annotations(self, workflow: str, key: object = None) -> list[Any]:
        """The annotations of a cell's steps, in order. Raises: BadUsage."""
        return views.annotated(self._desk, views.cell_id(self._desk, workflow, key))

    def cells(self, workflow: str | None = None) -> list[views.Cell]:
        """The cells, ordered by workflow and key. Raises: BadUsage."""
        return views.cells(self._desk, workflow)

    def events(self, schema: str) -> list[Any]:
        """The values of all events of this schema that steps emitted. Raises: BadUsage."""
        return [event.value for event in self.emitted(schema)]

    def emitted(self, schema: str | None = None) -> list[views.Emitted]:
        """All events that steps emitted, in order. Raises: BadUsage."""
        return views.emitted(self._desk, schema)

    def faults(self, workflow: str | None = None) -> list[FaultSeen]:
        """All faults of cells so far, in order. Raises: BadUsage."""
        return views.faults(self._desk, workflow)

    def trace(self, last: int = LAST) -> str:
        """The last records of the journal as readable lines."""
        return trace(self._desk, last)

    def replay(self) -> ReplayReport:
        """Execute the whole journal again and compare every record; then again from each snapshot.

        Raises:
            Divergence: A record differs: a module is not deterministic.
        """
        return self._desk.replay()

    def close(self) -> None:
        """Replay, unless that is switched off, and close. Raises: Divergence, as ``replay``."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._replays:
                self.replay()
        finally:
            self._dispatch.close()

    def abandon(self) -> None:
        """Close without a replay."""
        self._replays = False
        self.close()

    # Internal

    def _canonical(self, schema: str, value: object, word: str) -> bytes:
        schema_definition = self.manifest.schemas.get(schema)
        if schema_definition is None:
            raise BadUsage(_unknown_schema(schema, self.manifest))
        data = canonical(schema_definition, value, subject=f"{word} {schema}")
        if schema in self.manifest.sealing:
            problem = sealing_problem(schema_definition, data, self.manifest.schemas)
            if problem is not None:
                raise BadUsage(f"{word} {schema}: {problem} (in a test: Keyring.seal)")
        return data

    def _quiet(self) -> int:
        """Run cells and executors until the world is idle at this moment."""
        steps = self._desk.run()
        for _ in range(ROUNDS_MAX):
            if not self._dispatch.serve():
                return steps
            steps += self._desk.run()
        raise WorldProblem(
            f"the world does not become idle at {time_text(self.now_ns)}: {ROUNDS_MAX:,} answers "
            "and timers came at this one moment (a timer that is due immediately, repeatedly?)"
        )

    def _tell_faults(self, *, may_fail: bool) -> None:
        """Raise the faults that were not reported yet, also those that an input alone caused."""
        reported_count, self._faults_reported = self._faults_reported, len(self._desk.failed)
        if not may_fail and self._faults_reported > reported_count:
            raise CellFailed(views.faults(self._desk, None, reported_count))

    def _open_ones(self) -> list[Effect]:
        return [self._effect(intent) for intent in self._desk.open_intents()]

    def _all(self) -> list[Effect]:
        return [self._effect(intent) for intent in self._desk.opened_intents.values()]

    def _effect(self, intent: OpenIntent) -> Effect:
        return Effect(intent, self._desk, self._dispatch, self._cancel)

    def _matching_effects(
        self, effects: list[Effect], name: str | None, filters: EffectFilters
    ) -> list[Effect]:
        if name is not None:
            name = self.effect_name(name)
            effects = [effect for effect in effects if effect.name == name]
        if "workflow" in filters:
            filters = {**filters, "workflow": self.workflow(filters["workflow"])}
        return matching_effects(effects, **filters)

    def _cancel(self, intent: OpenIntent) -> None:
        self._control(CANCEL, intent=intent.intent)

    def _control(
        self,
        action: str,
        *,
        cell: CellId | None = None,
        intent: Hash | None = None,
        value: Hash | None = None,
    ) -> Admitted | Duplicate:
        self._check_open()
        figures = self._desk.figures()
        control = sign_control(
            action, cell=cell, intent=intent, value=value, world=self._desk.world,
            serial=figures.controls, operators=figures.operators, key=OPERATOR_KEY,
        )  # fmt: skip
        return self._desk.admit(control)

    def _check_open(self) -> None:
        if self._is_closed:
            raise WorldProblem("the world is closed: it accepts no input")


def _unknown_schema(schema: str, manifest: Effective) -> str:
    routed = sorted({subscription.event for subscription in manifest.subscriptions})
    return sentence(f"the manifest has no schema {schema}", expected="one of " + ", ".join(routed))

"""One simulated world: the kernel, a store that fails, and a host and executors in plain lists.

It is single-threaded, so the seed determines everything. The guarantees of a host (spec/host.md)
hold here too: the host reports and publishes nothing before its group is durable; nothing outside
knows of a lost group; a restart folds the journal, then publishes the open effects; an
``at_most_once`` effect runs after its attempt is durable, and the host reports it lost when the
process that ran it is gone.

With ``checks`` a model runs with the kernel and predicts every answer, record, frame and state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from aos.core.decide.answers import (
    Admitted,
    Answer,
    Decided,
    Duplicate,
    Refusal,
    Rule,
    admission,
)
from aos.core.journal.frame import NO_FRAME, Frame, Head
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    AttemptInput,
    ControlInput,
    EventInput,
    GenesisInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StartInput,
    StreamInput,
)
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Batch, CellId, KernelReceipt, Stamp
from aos.core.kernel import genesis, world_state
from aos.core.kernel_protocol import decided, step
from aos.core.pending import Sealed, receipt_digest
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import AosError
from aos.host.folder.restore import restore_kernel
from aos.manifest.names import KERNEL_EFFECTS
from aos.store.errors import CommitFailed, NoRoom
from aos.store.memory_store import MemoryStore
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem
from tests.memory_world import OPERATOR, START_NS, WORLD_KEY
from tests.sim import making, model_follow
from tests.sim.behaviour import Modules
from tests.sim.failure import SimFailure
from tests.sim.model import INLINE, Given, Marks, Model, Record, Told
from tests.sim.naive import manifest_of, plain
from tests.sim.plan import Plan, plans_of
from tests.sim.view import view

NONCE: Final = b"n" * 32


class AnyPlans(Protocol):
    """The versions of a world's manifest."""

    def __getitem__(self, version: int, /) -> Plan: ...

    def made(self) -> list[Plan]:
        """Return the versions that were asked for."""
        ...


class SimStore(MemoryStore):
    """A store whose next append can find no room, fail, or be durable and not say so."""

    def __init__(self) -> None:
        super().__init__()
        self.next: str = "ok"
        self.seen: dict[bytes, bytes] = {}
        """Every value that ever came with a group, erased ones too."""

    def append(self, group: Any, head: Head, **more: Any) -> None:
        how, self.next = self.next, "ok"
        for sealed in group:
            self.seen.update(sealed.blobs)
        if how == "no_room":
            raise NoRoom("no room, on purpose", needed_bytes=1, free=0)
        if how == "lost":
            raise CommitFailed("lost, on purpose")
        super().append(group, head, **more)
        if how == "kept":
            raise CommitFailed("durable, but reported as failed")

    def put_blobs(self, blobs: Mapping[Hash, bytes]) -> None:
        self.seen.update(blobs.items())
        super().put_blobs(blobs)


@dataclass
class Waiting:
    """A sealed frame that is not durable yet, and the answers that wait for it."""

    sealed: Sealed | None
    told: list[tuple[str, Given, Told]]


@dataclass
class Task:
    """An intent as executors hold it. ``began`` says that its attempt is durable and it runs,
    ``is_answered`` that its receipt is on its way. The host ``lacks`` what these attempts need:
    each begins in the journal, does not run and is held."""

    intent: OpenIntent
    attempt: int
    began: bool
    is_answered: bool = False
    lacks: set[int] = field(default_factory=set)


@dataclass
class History:
    """Everything that the outside of the world knows; it survives the end of a process."""

    acknowledged: list[tuple[str, Given, int]] = field(default_factory=list)
    published: list[tuple[int, OpenIntent]] = field(default_factory=list)
    """(record up to which the journal was durable then, intent)."""
    runs: list[tuple[bytes, int, bool]] = field(default_factory=list)
    """(intent, attempt, whether it may run only once): each time an executor began."""
    made: list[tuple[str, Given, Mapping[Hash, bytes]]] = field(default_factory=list)
    """Signed messages of executors and approvers, each with the blobs that were sent with it:
    receipts, stream frames, and messages of governance."""
    late: list[Task] = field(default_factory=list)
    """Tasks that no instance waits for any more, but whose executor continues."""
    values: list[bytes] = field(default_factory=list)
    """Content hashes of values that were too long for their record."""


class SimWorld:
    """One world, from its genesis on."""

    def __init__(
        self,
        seed: int,
        *,
        checks: bool = True,
        modules: Modules | None = None,
        trace: list[tuple[Any, ...]] | None = None,
        plans: AnyPlans | None = None,
        store: SimStore | None = None,
    ) -> None:
        self.seed = seed
        self.checks = checks
        self.chance = random.Random(f"stamps {seed}")
        self.limits = making.small_limits(seed)
        self.plans: AnyPlans = plans or plans_of(seed)
        self.modules = modules or Modules(seed)
        self.store = store or SimStore()
        self.history = History()
        self.trace: list[tuple[Any, ...]] = [] if trace is None else trace
        self.values: dict[bytes, bytes] = {}
        self.now_ns = START_NS
        self.runs = True
        self._begin()
        self._restart()

    def _begin(self) -> None:
        message = GenesisInput.message(NONCE, bytes(WORLD_KEY.verify_key), (OPERATOR,))
        given = GenesisInput(
            nonce=NONCE, world_key=bytes(WORLD_KEY.verify_key), operators=(OPERATOR,),
            signature=WORLD_KEY.sign(message).signature,
        )  # fmt: skip
        sealed = genesis(given, self.stamp(), self.chance.randbytes(32))
        self.id = sealed.tip.world
        self.store.append([sealed], Head.of(sealed.tip).signed(WORLD_KEY), expected=NO_FRAME)

    def stamp(self) -> Stamp:
        self.now_ns += 1000
        return Stamp(max(0, self.now_ns), self.chance.randbytes(64))

    # A process: from its start to its end

    def _restart(self) -> None:
        """Fold the durable journal and publish open effects; everything not durable is lost."""
        self.waiting: list[Waiting] = []
        self.draft: dict[Hash, bytes] = {}
        """Blobs that came with inputs of the frame in hand."""
        self.kernel = restore_kernel(
            self.store, self.id, read=self._read, limits=self.limits, keeps=False
        )
        state = self.state
        if self.checks and self.store.snapshot_before() is not None:
            making.check_restart(self, state, "after a restart")
        making.fill_kernel(self.kernel, making.KEPT[self.seed % 4])
        self.making: making.Making | None = None
        self.telling: list[tuple[str, Given, Told]] = []
        self.settling: dict[bytes, tuple[int, bytes]] = {}
        self.tasks: dict[bytes, Task] = {}
        self.lost: list[bytes] = []
        self.has_room = True
        if self.checks:
            self.model = self.followed()
            self._compare_states("after a restart")
        self._publish(
            [each for each in state.intents.values() if each.effect.name not in KERNEL_EFFECTS]
        )
        if self.runs:
            self.submit("start", {"host": {"kernel": "sim"}})

    def crash(self, *, runs: bool) -> None:
        """The process ends without a word."""
        self.runs = runs
        self._restart()

    def _read(self, hash: Hash, /) -> bytes:
        if hash in self.draft:
            return self.draft[hash]
        for each in reversed(self.waiting):
            if each.sealed is not None and hash in each.sealed.blobs:
                return each.sealed.blobs[hash]
        return self.store.blob(hash)

    def _publish(self, opened: list[OpenIntent]) -> None:
        """Hand intents to executors. An ``at_most_once`` effect waits until its attempt is durable;
        if an earlier attempt was durable, its outcome is unknown, unless that was held or parked.
        Effects that were held or parked wait for another attempt if they may have one (X-16)."""
        state = self.state
        head = self.store.head()
        for intent in opened:
            self.history.published.append((head.seq if head else 0, intent))
            is_once = intent.effect.delivery == "at_most_once"
            halt = state.halt(intent)
            if is_once and halt is not None and halt.phase == "parked":
                continue
            if is_once and intent.intent in state.attempts and halt is None:
                self.lost.append(intent.intent)
                continue
            began = not is_once and halt is None
            task = Task(intent, max(1, state.attempt(intent)), began=began)
            self.tasks[intent.intent] = task
            if task.began:
                self._run(task)

    def _run(self, task: Task) -> None:
        is_once = task.intent.effect.delivery == "at_most_once"
        self.history.runs.append((task.intent.intent, task.attempt, is_once))

    # Inputs

    def submit(
        self, kind: str, given: Given, blobs: Mapping[Hash, bytes] | None = None
    ) -> Told | None:
        """Admit one input. The answer is known here, and told once it is durable. None while there
        is no room on the disk: nothing is admitted then (H-24)."""
        if not self.has_room:
            return None
        refused = self._host_says(kind, given, blobs or {})
        if refused is not None:
            told = told_of(kind, refused)
            self._note(kind, told)
            self.telling.append((kind, given, told))
            return told
        stamp = self.stamp()
        before = self.kernel.pending_records
        decision = decided(
            self.kernel, input_of(kind, given), stamp, self.modules, self.store.put_blobs
        )
        if self.kernel.pending_records != before:
            raise SimFailure("refusal", f"{kind} changed the journal before it was entered")
        answer: Answer
        record = None
        if isinstance(decision, Decided):
            self.kernel.enter(decision)
            answer = admission(decision.record)
            self._admitted(kind, given, answer, blobs or {})
            record = self._last(decision)
        else:
            answer = decision
        told = told_of(kind, answer)
        self._note(kind, told, record)
        if self.checks:
            self._compare_admission(kind, given, stamp, told, record)
        self.telling.append((kind, given, told))
        return told

    def _host_says(self, kind: str, given: Given, blobs: Mapping[Hash, bytes]) -> Answer | None:
        """Return the host's own answer, if it has one: H-30, and bytes that it lacks."""
        if kind in ("manifest", "governance"):
            return self._lacks_module(kind, given["document"], blobs)
        if kind == "control" and given["value"] is not None:
            if self.has(given["value"]):
                return None
            return Refusal(rule=Rule.VALUE_IS_UNKNOWN, message="")
        if kind != "receipt" or self.kernel.takes_receipt(given["intent"]):
            return None
        found = self.settling.get(given["intent"])
        row = self.store.intent(given["intent"])
        if found is None and row is not None and row.settled_seq is not None:
            assert row.receipt_digest is not None
            found = (row.settled_seq, row.receipt_digest)
        if found is None:
            return None
        asked = input_of(kind, given)
        assert isinstance(asked, ReceiptInput)
        if found[1] == receipt_digest(asked):
            answer: Answer = Duplicate(seq=found[0])
        else:
            answer = Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED, message="")
        if self.checks:
            told, _ = model_follow.admit(self.model, kind, given, {"ns": 0}, {})
            model_follow.compare("a receipt that comes late", told, told_of(kind, answer))
        return answer

    def _lacks_module(
        self, kind: str, document: bytes | None, blobs: Mapping[Hash, bytes]
    ) -> Refusal | None:
        """Refuse a manifest, also a proposed one, whose modules the world would lack."""
        if document is None:
            return None
        try:
            modules = manifest_of(document).modules
        except (ValueProblem, LookupError, TypeError, ValueError):
            return None  # the kernel's refusal says what is wrong with the document
        if all(hash in blobs or self.has(hash) for hash in modules.values()):
            return None
        is_applied = kind == "manifest"
        rule = Rule.MANIFEST_IS_INVALID if is_applied else Rule.PROPOSAL_IS_INVALID
        return Refusal(rule=rule, message="")

    def has(self, value: bytes) -> bool:
        """Whether the core can read a value, durable or not."""
        try:
            self.kernel.read(Hash(value))
        except AosError:
            return False
        return True

    def _admitted(
        self, kind: str, given: Given, answer: Admitted, blobs: Mapping[Hash, bytes]
    ) -> None:
        self.draft.update(blobs)
        if kind == "control" and given["action"] == "erase":
            self.draft.pop(given["value"], None)
        if kind == "manifest":
            self.values[content_hash(given["document"])] = given["document"]
        if kind == "receipt":
            asked = input_of(kind, given)
            assert isinstance(asked, ReceiptInput)
            self.settling[given["intent"]] = (answer.seq, receipt_digest(asked))

    def _compare_admission(
        self, kind: str, given: Given, stamp: Stamp, told: Told, record: Record | None
    ) -> None:
        what = {"ns": stamp.ns, "entropy": stamp.entropy}
        foretold, expected = model_follow.admit(self.model, kind, given, what, record or {})
        model_follow.compare(f"the answer to {kind} {given!r:.300}", foretold, told)
        model_follow.compare(f"record {told[1]}", expected, record)

    def _last(self, entered: Decided) -> Record:
        self._keep_values(entered.blobs)
        self._keep_values(self.draft)
        record: Any = plain(to_bytes(entered.record))
        return dict(record)

    def _keep_values(self, blobs: Mapping[Hash, bytes]) -> None:
        for hash, data in blobs.items():
            if hash not in self.values:
                self.values[hash] = data
                # Which shorter states are at rest depends on the cells that were read meanwhile.
                if len(data) > INLINE:
                    self.history.values.append(hash)

    # Steps and frames

    def step(self) -> bool:
        """One receipt that the core owes, or one run of the ring's head. False: neither."""
        if not self.has_room:
            return False
        if not self.kernel.has_work(steps=self.runs):
            if self.checks and (self.model.owed or (self.runs and self.model.ring)):
                raise SimFailure("model", "the kernel has no work, and the model has")
            return False
        entered = step(self.kernel, self.modules if self.runs else None)
        if entered is None:
            raise SimFailure("work", "the kernel has work and does nothing")
        stepped = entered.record
        if isinstance(stepped, KernelReceipt):
            self.settling[stepped.intent] = (stepped.seq, receipt_digest(stepped))
        record = self._last(entered)
        self._note("step", record)
        if self.checks:
            self._compare_call()
            model_follow.compare(
                f"record {record['seq']}", model_follow.step(self.model, record), record
            )
        return True

    def _compare_call(self) -> None:
        """Report a different module input as such, not as a different output."""
        call, self.modules.last = self.modules.last, None
        if call is None or not self.model.ring or self.model.owed:
            return
        from tests.sim.model_step import envelope

        cell = self.model.cells[self.model.ring[0]]
        expected = envelope(self.model, cell, cell.mail[0])
        if expected != call.input:
            model_follow.compare("the input of the module", opened(expected), opened(call.input))

    def seal(self) -> None:
        """End the frame in hand. Its answers go with it."""
        sealed = self.kernel.seal(self.chance.randbytes(32))
        if sealed is None and not self.telling:
            return
        if sealed is not None:
            sealed = replace(sealed, blobs={**sealed.blobs, **self.draft})
            self.draft = {}
            self._keep_values(sealed.blobs)  # with those that its end has spilled
        self.waiting.append(Waiting(sealed, self.telling))
        self.telling = []
        if self.checks and sealed is not None:
            self._compare_sealed(sealed, model_follow.sealed(self.model))
            self._compare_states(f"after frame {sealed.frame.header.first}")

    def _compare_sealed(self, sealed: Sealed, marks: Marks) -> None:
        over = {*marks.settled, *marks.abandoned}
        effects = {intent.intent: intent.effect.name for intent in sealed.opened_intents}
        expected = {
            "opened": marks.opened, "settled": marks.settled, "abandoned": marks.abandoned,
            "canceled": marks.canceled, "erased": marks.erased, "submitted": marks.submitted,
            "publish": [
                each for each in marks.opened
                if each not in over and effects.get(Hash(each)) not in KERNEL_EFFECTS
            ],
        }  # fmt: skip
        found = {
            "opened": [intent.intent for intent in sealed.opened_intents],
            "settled": [each.intent for each in sealed.settled],
            "abandoned": list(sealed.abandoned),
            "canceled": list(sealed.canceled),
            "erased": list(sealed.erased),
            "submitted": [(each.submission_id, each.seq) for each in sealed.submissions],
            "publish": [each.intent for each in sealed.to_publish],
        }
        model_follow.compare(f"frame {sealed.frame.header.first}", expected, found)

    def _compare_states(self, when: str) -> None:
        model_follow.compare(
            f"state {when}", model_follow.view(self.model), view(self.state, self.values)
        )

    def commit(self, how: str) -> None:
        """Make everything that is sealed durable: ``ok``; or find no room, and keep it; or lose it
        (``lost``), or have it durable without knowing (``kept``): the process ends then."""
        frames = [each.sealed for each in self.waiting if each.sealed is not None]
        if frames:
            head = Head.of(frames[-1].tip).signed(WORLD_KEY)
            self.store.next = how
            try:
                self.store.append(frames, head, expected=frames[0].frame.header.prev)
            except NoRoom:
                self.has_room = False
                return
            except CommitFailed:
                self.crash(runs=self.runs)
                return
        self.has_room = True
        group, self.waiting = self.waiting, []
        self._durable(group)
        is_whole = self.kernel.pending_records == 0 and self.store.snapshot_before() is not None
        if self.checks and is_whole:
            making.check_restart(self, self.state, "of the kernel after a commit")

    def _durable(self, group: list[Waiting]) -> None:
        """Publish intents, then report results, in this order (H-21, H-31)."""
        opened: dict[bytes, OpenIntent] = {}
        for each in group:
            if each.sealed is None:
                continue
            opened.update((intent.intent, intent) for intent in each.sealed.to_publish)
            ended = [settled.intent for settled in each.sealed.settled]
            for hash in (*ended, *each.sealed.abandoned, *each.sealed.canceled):
                opened.pop(hash, None)
                self._drop(hash, is_late=hash not in ended)
            for hash in ended:
                self.settling.pop(hash, None)
        self._publish(list(opened.values()))
        for each in group:
            for kind, given, told in each.told:
                self._tell(kind, given, told)

    def _drop(self, hash: bytes, *, is_late: bool) -> None:
        task = self.tasks.pop(hash, None)
        if task is not None and is_late and task.began:
            self.history.late.append(task)

    def _tell(self, kind: str, given: Given, told: Told) -> None:
        if told[0] != "admitted":
            return
        self.history.acknowledged.append((kind, given, told[1]))
        if kind == "snapshot":
            making.told(self, given)
        task = self.tasks.get(given["intent"]) if kind == "attempt" else None
        if task is None:
            return
        match given["phase"]:
            case "begun":
                task.attempt, task.began = given["attempt"], given["attempt"] not in task.lacks
                if task.began:
                    self._run(task)
            case "held" | "parked":
                task.began = False
                if given["phase"] == "parked" and task.intent.effect.delivery == "at_most_once":
                    del self.tasks[given["intent"]]

    def snapshot(self, chance: random.Random) -> None:
        """Make a snapshot, or continue the one in progress, partly or to its end."""
        if self.making is None:
            self.making = making.begin(self, chance)
        for _ in range(chance.choice([0, 1, 2, 6])):
            if self.making is not None:
                making.go_on(self, self.making, chance)

    def settle_down(self) -> None:
        """Let it come to rest and make everything durable."""
        self.has_room = True
        for _ in range(2000):
            if not self.step():
                break
        self.seal()
        self.commit("ok")

    # For readers of the world

    @property
    def state(self) -> State:
        return world_state(self.kernel)

    @property
    def version(self) -> int:
        """Of the manifest in force; 0 for none."""
        return version_in(self.state, self.plans)

    @property
    def frames(self) -> list[Frame]:
        return list(self.store.frames())

    def records(self) -> list[Record]:
        found: list[Any] = [plain(data) for each in self.frames for data in each.records]
        return found

    def followed(self) -> Model:
        """A model that decided the durable journal again by itself."""
        return model_follow.follow(self.records(), self.modules.outcome, dict(self.values))

    def _note(self, *what: Any) -> None:
        self.trace.append(what)


def version_in(state: State, plans: AnyPlans) -> int:
    made = {each.loaded.effective.hash: each.version for each in plans.made()}
    return 0 if state.manifest is None else made[state.manifest.hash]


def opened(envelope: bytes) -> Any:
    read: Any = plain(envelope)
    event = {**read["event"], "value": plain(read["event"]["value"])}
    context = plain(read["ctx"]) if "ctx" in read else None
    return {**read, "event": event, "ctx": context}


def told_of(kind: str, answer: Answer) -> Told:
    match answer:
        case Admitted(seq=seq, outcome=outcome):
            return ("admitted", seq, outcome) if kind == "receipt" else ("admitted", seq)
        case Duplicate(seq=seq):
            return ("duplicate", seq)
        case Refusal(rule=Rule.MANIFEST_DOES_NOT_FIT, blockers=blockers):
            misfits = sorted((each.kind, each.cell) for each in blockers)
            return ("refused", answer.rule.value, misfits)
        case Refusal(rule=Rule.WORLD_IS_NOT_QUIESCENT, blockers=blockers):
            found: list[tuple[str, CellId]] = [(each.kind, each.cell) for each in blockers]
            unfinished = sum(kind == "instance_is_not_terminal" for kind, _ in found)
            # The order of the instances is not guaranteed.
            found[:unfinished] = sorted(found[:unfinished])
            return ("refused", "world_is_not_quiescent", found)
        case Refusal(rule=rule):
            return ("refused", rule.value)


def input_of(kind: str, given: Given) -> Input:
    match kind:
        case "event":
            return EventInput(**given)
        case "receipt":
            batch = given.get("batch")
            placed = None if batch is None else Batch(**{**batch, "path": tuple(batch["path"])})
            return ReceiptInput(**{**given, "batch": placed})
        case "stream":
            return StreamInput(**given)
        case "attempt":
            return AttemptInput(**given)
        case "control":
            return ControlInput(**given)
        case "manifest":
            return ManifestInput(**given)
        case "governance":
            return GovernanceInput(**given)
        case "snapshot":
            return SnapshotInput(**given)
        case _:
            return StartInput(host=tuple(sorted(given["host"].items())))

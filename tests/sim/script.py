"""A seed -> a script: commands, each with a number from which the rest of it is drawn.

A command finds what it is about among what is there when it runs, so that a script stays one when
commands are taken out of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.snapshot.load import parts
from aos.core.state.version import is_pinned
from aos.manifest.names import KERNEL_EFFECTS
from aos.store.stored_world import snapshot_with
from aos.values.digests import Hash, content_hash, hash_text
from tests.memory_world import OPERATOR_KEY, WORLD_KEY
from tests.sim import governing
from tests.sim.model import Given
from tests.sim.model_inputs import control_message
from tests.sim.model_settle import receipt_message
from tests.sim.naive import TIMER, cbor, digest, plain
from tests.sim.plan import PAYS, SECOND, VERSIONS, is_governed, key_named, plans_of, some_event
from tests.sim.world import SimWorld, Task

Chance = random.Random
DAY: Final = 24 * 3600 * SECOND
JUMPS: Final = (
    [0, 1000, SECOND // 4, SECOND, 3 * SECOND, -SECOND, -5 * SECOND],
    [30, 10, 8, 4, 1, 1, 1],
)
MALLORY: Final = key_named("mallory")


@dataclass(frozen=True)
class Command:
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.what}:{self.number}"


def script_of(seed: int) -> list[Command]:
    """The commands of a seed: a weight for each kind, then that many draws."""
    chance = Chance(f"script {seed}")
    usual = {
        "send": 20, "step": 26, "settle": 18, "again": 5, "stream": 7, "attempt": 11, "seal": 6,
        "commit": 12, "retry": 5, "cancel": 1, "erase": 2, "control": 1, "apply": 1.5, "crash": 0.8,
        "batch": 5, "rotate": 2, "reap": 2, "no_room": 0.5, "lost": 0.4, "kept": 0.4, "stop": 0.6,
        "nonsense": 1, "snapshot": 7,
    }  # fmt: skip
    weights = [weight * chance.choice([0.3, 1, 1, 2]) for weight in usual.values()]
    kinds = chance.choices(list(usual), weights, k=chance.choice([15, 30, 50, 80, 120]))
    first = [Command("apply", 0)] + [Command("flush", 0)] * (chance.random() < 0.9)
    script = [Command(kind, chance.getrandbits(32)) for kind in kinds]
    if is_governed(seed):
        _add_governance(Chance(f"governance {seed}"), script)
    for kind in chance.choices(["answer", "end"], k=chance.choice([0, 0, 1, len(script) // 10])):
        script.insert(chance.randrange(len(script)), Command(kind, chance.getrandbits(32)))
    _add_leaps(Chance(f"clock {seed}"), script)
    return [*first, *script]


def _add_leaps(chance: Chance, script: list[Command]) -> None:
    """In one seed of five, a clock that is ahead, and commands that set the journal clock back."""
    if chance.random() < 0.8:
        return
    for kind in chance.choices(["leap", "mend"], k=chance.choice([2, 4, 1 + len(script) // 10])):
        script.insert(chance.randrange(len(script)), Command(kind, chance.getrandbits(32)))


def _add_governance(chance: Chance, script: list[Command]) -> None:
    weights = {"propose": 4, "vote": 8, "report": 2, "withdraw": 1, "apply": 3}
    kinds = chance.choices(list(weights), list(weights.values()), k=len(script) // 4)
    for kind in kinds:
        script.insert(chance.randrange(len(script)), Command(kind, chance.getrandbits(32)))


def play(world: SimWorld, script: Sequence[Command]) -> None:
    """Run a script and bring the world to rest."""
    for command in script:
        world.trace.append(("do", command))
        chance = Chance(command.number)
        world.now_ns += chance.choices(*JUMPS)[0]
        _DO[command.what](world, chance)
    world.settle_down()


# Senders


def send(world: SimWorld, chance: Chance) -> None:
    for _ in range(chance.choice([1, 1, 2, 3, 6])):
        world.submit("event", _event(world, chance))


def _event(world: SimWorld, chance: Chance) -> Given:
    plan = world.plans[max(1, world.version)]
    event = chance.choice(plan.events)
    ref = None
    value = some_event(plan, event, chance)
    intents = list(world.state.intents.values())
    if intents and chance.random() < 0.5:
        # It names an open intent, and often goes to the cell that asked for it.
        intent = chance.choice(intents)
        ref = hash_text(intent.intent)
        key = plain(intent.cell[1]) if intent.cell[1] else None
        event = {str: "s/A@1", int: "s/N@1"}.get(type(key), event)
        value = some_event(plan, event, chance, ref)
        if type(key) in (str, int) and chance.random() < 0.75:
            value["k"] = key
    data = cbor(value)
    if chance.random() < 0.08:
        event, data = chance.choice(
            [
                ("s/Nope@1", data), ("sys/EffectError@1", data), (event, cbor(5)), (event, b"\xff"),
                (event, data + b"\x00"), (event, b"\xd9\xd9\xf7" + data), (event, bytes(9000)),
                ("s/A@1", cbor({"k": "a", "also": "b", "n": 1, "more": b"", "extra": 1})),
                ("s/A@1", cbor({"k": "a", "also": "b", "n": 1, "more": b""})),
                ("s/V@1", cbor({"$tag": "Right", "$value": {"n": 1}})),
            ]
        )  # fmt: skip
    another = f"n{chance.randrange(1000)}"
    submission = chance.choices(
        [None, *"pqrs", another, "", "x" * 257, "é" * 128, "\ud800"],
        [9, 2, 2, 2, 2, 6, 0.2, 0.2, 0.2, 0.2],
    )[0]
    if submission in ("p", "q"):
        # So that the same id often comes with the same event.
        again = Chance(f"{world.seed} {submission}")
        event, data = "s/A@1", cbor(some_event(plan, "s/A@1", again))
    return {"schema": event, "value": data, "submission_id": submission}


# Executors


def _tasks(world: SimWorld, chance: Chance) -> list[Task]:
    """Tasks that executors run. If none is published yet, the disk often commits first."""
    if not world.tasks and world.state.intents and chance.random() < 0.7:
        _flush(world)
    if world.history.late and chance.random() < 0.15:
        return world.history.late[-4:]
    began = [each for each in list(world.tasks.values()) if each.began]
    unanswered = [each for each in began if not each.is_answered]
    return began if chance.random() < 0.15 else unanswered


def settle(world: SimWorld, chance: Chance) -> None:
    tasks = _tasks(world, chance)
    for _ in range(chance.choice([1, 1, 2, 4])):
        if tasks:
            _tell(world, _receipt(world, chance.choice(tasks), chance), chance)


def _tell(world: SimWorld, given: Given, chance: Chance) -> None:
    world.history.made.append(("receipt", given, {}))
    if chance.random() < 0.1:
        return
    told = world.submit("receipt", given)
    task = world.tasks.get(given["intent"])
    if task is not None and told is not None:
        task.is_answered = told[0] == "admitted"


def batch(world: SimWorld, chance: Chance) -> None:
    """Several receipts under one signature, each sent alone and in any order."""
    tasks = _tasks(world, chance)
    if not tasks:
        return
    given = [
        _receipt(world, chance.choice(tasks), chance, signs=False)
        for _ in range(chance.randint(1, 6))
    ]
    by: dict[tuple[str, bytes], list[Given]] = {}
    for each in given:
        by.setdefault((each["executor"], each["key_id"]), []).append(each)
    for (executor, key_id), group in by.items():
        if key_id in _known_keys:
            _sign_together(world, executor, key_id, group, chance)
    chance.shuffle(given)
    for each in given:
        _tell(world, each, chance)


def _sign_together(
    world: SimWorld, executor: str, key_id: bytes, group: list[Given], chance: Chance
) -> None:
    messages = [receipt_message(world.id, {**each, "batch": None}) for each in group]
    leaves = [digest("aos/receipt-leaf/1", message) for message in messages]
    over = {
        "world": world.id,
        "executor": executor,
        "key_id": key_id,
        "root": tree(leaves),
        "size": len(leaves),
    }
    signature = _key_of(key_id).sign(cbor(["aos/receipts/1", over])).signature
    for index, each in enumerate(group):
        path = path_of(leaves, index)
        each |= {
            "signature": signature,
            "batch": {"index": index, "size": len(leaves), "path": path},
        }
        if chance.random() < 0.15:
            wrong: list[Given] = [
                {"path": [*path, bytes(32)]}, {"path": path[:-1]}, {"index": index + 1},
                {"size": len(leaves) + 1}, {"size": 70_000}, {"path": path[::-1], "index": 0},
            ]  # fmt: skip
            each["batch"] |= chance.choice(wrong)


def tree(leaves: list[bytes]) -> bytes:
    """J-20, J-21."""
    if len(leaves) == 1:
        return leaves[0]
    split = _split(len(leaves))
    return digest("aos/node/1", tree(leaves[:split]), tree(leaves[split:]))


def path_of(leaves: list[bytes], index: int) -> list[bytes]:
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*path_of(leaves[:split], index), tree(leaves[split:])]
    return [*path_of(leaves[split:], index - split), tree(leaves[:split])]


def _split(size: int) -> int:
    return max(each for each in (1, 2, 4, 8) if each < size)


def _receipt(world: SimWorld, task: Task, chance: Chance, *, signs: bool = True) -> Given:
    """A receipt from an executor; it is not always true or valid."""
    status = chance.choices(["ok", "error", "timeout", "canceled"], [7, 2, 1, 1])[0]
    signer = _signer(world, task, chance)
    given = _unsigned(world, task, status, signer, chance)
    given["payload"] = _payload(given["effect"], status, world, chance)
    if chance.random() < 0.08:
        given |= chance.choice(_SLIPS)
    if signs:
        given["signature"] = signer[1].sign(receipt_message(world.id, given) or b"").signature
    if chance.random() < 0.1:
        given |= _forged(world, given, chance)
    return given


def _unsigned(
    world: SimWorld, task: Task, status: str, signer: tuple[str, SigningKey], chance: Chance
) -> Given:
    executor, key = signer
    return {
        "intent": task.intent.intent, "effect": task.intent.effect.name, "attempt": task.attempt,
        "status": status, "payload": cbor("misfit"), "started_ns": max(0, world.now_ns),
        "finished_ns": max(0, world.now_ns) + 5, "executor": executor,
        "key_id": bytes(key.verify_key), "signature": b"",
        "cost_cents": chance.choice([None, None, 0, 7]), "batch": None,
    }  # fmt: skip


_SLIPS: Final[list[Given]] = [
    {"status": "fine"}, {"attempt": 0}, {"attempt": 2**32}, {"attempt": 9}, {"started_ns": 2**63},
    {"started_ns": 10, "finished_ns": 9}, {"payload": bytes(9000)}, {"effect": "s/other@1"},
    {"executor": "mallory"}, {"executor": "node"}, {"started_ns": 0, "finished_ns": 2**63 - 1},
]  # fmt: skip
"""Fields with which an executor signs an invalid receipt."""


def _signer(world: SimWorld, task: Task, chance: Chance) -> tuple[str, SigningKey]:
    """Mostly one that may sign for this effect; also keys of other times and other people."""
    if chance.random() < 0.06:
        plan = world.plans[max(1, world.version)]
        others = [each for named in plan.signers.values() for each in named]
        return chance.choice([*others, ("shop", MALLORY), ("mallory", MALLORY), ("node", MALLORY)])
    return _true_signer(task, chance)


def _true_signer(task: Task, chance: Chance) -> tuple[str, SigningKey]:
    executors = task.intent.executors
    if executors is None:
        return "node", WORLD_KEY
    named = [each for each in executors.values() if task.intent.effect.name in each.effects]
    if not named:
        return "node", WORLD_KEY
    chosen = chance.choice(named)
    return chosen.name, _key_of(chosen.public_key)


def _key_of(public: bytes) -> SigningKey:
    return _known_keys[public]


def know_keys(seed: int) -> None:
    """Reset the known keys to those that a party in this seed's world may hold."""
    _known_keys.clear()
    plans = plans_of(seed).seed
    labels = [f"{plans} shop {i}" for i in range(VERSIONS + 1)] + [f"{plans} desk"]
    for key in (*map(key_named, labels), WORLD_KEY, MALLORY):
        _known_keys[bytes(key.verify_key)] = key


_known_keys: dict[bytes, SigningKey] = {}


def _payload(effect: str, status: str, world: SimWorld, chance: Chance) -> bytes:
    error: Any = {"code": "c", "message": "m", "retryable": False}
    good: Any = error
    if status == "ok":
        blob = f"blake3:{bytes(32).hex()}"
        good = {
            TIMER: {"delivered_at_ns": max(0, world.now_ns), "key": None},
            "sys/blob.put@1": {"blob_ref": blob, "edge_ref": blob, "size": 3},
            "sys/blob.get@1": {
                "blob_ref": blob,
                "size": 3,
                "bytes": bytes(chance.choice([3, 5000])),
            },
        }.get(effect, error)
    match chance.randrange(24):
        case 0:
            return cbor("misfit")
        case 1:
            return b"\xff"
        case 2 if effect in PAYS:
            return cbor({"code": "c", "message": "m"})
        case 3 if effect in PAYS:
            return cbor({"code": "c", "message": "m" * 5000, "retryable": True})
        case 4:
            return b"\xd9\xd9\xf7" + cbor(good)
        case 5:
            return cbor(error)
    return cbor(good)


def _forged(world: SimWorld, given: Given, chance: Chance) -> Given:
    """One field other than it was signed."""
    other: list[Given] = [
        {"intent": content_hash(b"another")}, {"effect": "s/other@1"},
        {"attempt": given["attempt"] + 1}, {"payload": given["payload"] + b"\x00"},
        {"status": "ok" if given["status"] != "ok" else "error"},
        {"payload": cbor("another")}, {"finished_ns": given["finished_ns"] + 1},
        {"cost_cents": 8}, {"signature": bytes(64)}, {"signature": b"short"},
        {"key_id": bytes(MALLORY.verify_key)}, {"key_id": bytes(32)}, {"executor": "desk"},
        {"batch": {"index": 0, "size": 1, "path": []}},
    ]  # fmt: skip
    intents = list(world.state.intents)
    if intents:
        other.append({"intent": chance.choice(intents)})
    return chance.choice(other)


def again(world: SimWorld, chance: Chance) -> None:
    """Send an earlier signed message again: late, after a crash, altered, or without its blobs."""
    if not world.history.made:
        return
    kind, given, blobs = chance.choice(world.history.made[-12:])
    given = dict(given)
    if kind == "receipt" and chance.random() < 0.25:
        given |= _forged(world, given, chance)
    if blobs and chance.random() < 0.25:
        blobs = {}
    world.submit(kind, given, blobs)


def stream(world: SimWorld, chance: Chance) -> None:
    tasks = _tasks(world, chance)
    if not tasks:
        return
    plan = world.plans[max(1, world.version)]
    taking = {flow.name for flow in plan.flows if "stream" in flow.arms}
    taken = [each for each in tasks if each.intent.cell[0] in taking]
    task = chance.choice(taken if taken and chance.random() < 0.9 else tasks)
    for _ in range(chance.choice([1, 2, 4])):
        given = _frame(world, task, chance)
        world.history.made.append(("stream", given, {}))
        world.submit("stream", given)


def _frame(world: SimWorld, task: Task, chance: Chance) -> Given:
    known = world.state.streams.get(task.intent.intent)
    after = 0 if known is None else known.last + 1
    number = chance.choices(
        [after, after + 3, max(0, after - 1), 2**63, -1, True], [20, 5, 3, 0.3, 0.3, 0.3]
    )[0]
    executor, key = _signer(world, task, chance)
    given: Given = {
        "intent": task.intent.intent, "effect": task.intent.effect.name, "attempt": task.attempt,
        "frame_seq": number, "frame_kind": chance.choices(["part", "", "k" * 129], [30, 1, 1])[0],
        "payload": bytes(chance.choice([0, 0, 5, 5, 16, 17, 1500, 2001])), "executor": executor,
        "key_id": bytes(key.verify_key), "signature": b"",
        "payload_ref": chance.choices([None, bytes(32), b"short"], [10, 3, 0.5])[0],
    }  # fmt: skip
    given["signature"] = key.sign(_stream_message(world, given)).signature
    if chance.random() < 0.1:
        wrong: list[Given] = [
            {"payload": b"x"}, {"frame_kind": "other"}, {"attempt": task.attempt + 1},
            {"signature": bytes(64)}, {"effect": "s/other@1"}, {"attempt": 0},
            {"intent": content_hash(b"another")}, {"payload_ref": bytes([1]) * 32},
        ]  # fmt: skip
        given |= chance.choice(wrong)
    return given


def _stream_message(world: SimWorld, given: Given) -> bytes:
    from tests.sim.model_settle import stream_message

    return stream_message(world.id, given)


def attempt(world: SimWorld, chance: Chance) -> None:
    """Begin ``at_most_once`` effects, repeat attempts of others, hold and park some, and report
    invalid attempts."""
    tasks = list(world.tasks.values())
    for task in tasks:
        if not task.began and chance.random() < 0.7:
            _begin(world, task, chance)
    if not tasks:
        return
    running = [each for each in tasks if each.began and not each.is_answered]
    if running and chance.random() < 0.15:
        once = [each for each in running if each.intent.effect.delivery == "at_most_once"]
        _halt(world, chance.choice(once or running), chance)
    task = chance.choice(tasks)
    number = world.state.attempts.get(task.intent.intent, 1)
    number += chance.choices([1, 0, 2, -1], [10, 1, 1, 1])[0]
    if chance.random() < 0.6 and task.began:
        phase = chance.choices(["begun", "lost", "thought"], [20, 0.5, 1])[0]
        is_once = task.intent.effect.delivery == "at_most_once"
        if phase != "lost" or not is_once:
            _attempt(world, task.intent.intent, number, phase)


def _begin(world: SimWorld, task: Task, chance: Chance) -> None:
    """Begin the next attempt of a task, or hold the one that began and cannot run (K-99)."""
    last = world.state.attempt(task.intent)
    halt = world.state.halt(task.intent)
    if last in task.lacks and halt is None:
        _attempt(world, task.intent.intent, last, "held", "secret_unavailable")
        return
    if chance.random() < 0.2:
        task.lacks.add(last + 1)
    _attempt(world, task.intent.intent, last + 1, "begun")


def _halt(world: SimWorld, task: Task, chance: Chance) -> None:
    """An attempt that ran was parked; one of an effect that may run often was perhaps held."""
    is_once = task.intent.effect.delivery == "at_most_once"
    phase = "parked" if is_once else chance.choice(["held", "parked"])
    code = chance.choices(["exception", "http_not_allowed", "c" * 129, "", None], [8, 8, 1, 1, 1])
    number = world.state.attempt(task.intent) + chance.choices([0, 1, -1], [10, 1, 1])[0]
    _attempt(world, task.intent.intent, number, phase, code[0])


def _attempt(
    world: SimWorld, intent: bytes, number: int, phase: str, code: str | None = None
) -> None:
    problem = None if number == 1 and phase == "begun" else "the connection broke"
    world.submit(
        "attempt",
        {"intent": intent, "attempt": number, "phase": phase, "problem": problem, "code": code},
    )


def reap(world: SimWorld, chance: Chance) -> None:
    """The host reports runs that will never settle as lost (K-97)."""
    for intent in world.lost:
        if chance.random() < 0.8:
            _attempt(world, intent, 1, "lost")
    for task in _tasks(world, chance):
        if task.intent.effect.delivery == "at_most_once" and chance.random() < 0.2:
            _attempt(world, task.intent.intent, 1, "lost")


# Operators


def _control(world: SimWorld, chance: Chance, action: str, **about: Any) -> None:
    state = world.state
    serial = state.controls
    given: Given = {
        "action": action, "principal": "operator", "serial": serial, "cell": None, "intent": None,
        "value": None, "status": None, "payload": None, "why": None,
        "restamp": True if action in ("retry", "skip") and serial % 3 else None, **about,
    }  # fmt: skip
    if chance.random() < 0.1:
        wrong: list[Given] = [
            {"serial": serial + 1}, {"serial": serial - 1}, {"principal": "mallory"},
            {"cell": ("s/w0@1", b"")}, {"intent": b"short"}, {"action": "dance"},
            {"restamp": True},
        ]  # fmt: skip
        if action in ("settle", "end", "remove"):
            wrong += [
                {"status": None}, {"status": "ok"}, {"status": "running"}, {"why": "w" * 1025},
                {"why": ""}, {"payload": b"\xff"}, {"action": "end"}, {"action": "remove"},
            ]  # fmt: skip
        given |= chance.choice(wrong)
    key = MALLORY if chance.random() < 0.03 else OPERATOR_KEY
    given["signature"] = key.sign(control_message(world.id, given)).signature
    if chance.random() < 0.03:
        forged: list[Given] = [{"action": "skip"}, {"status": "failed"}, {"why": "another"}]
        forged.append({"restamp": None if given["restamp"] else True})
        given |= chance.choice(forged)
    world.submit("control", given)


def retry(world: SimWorld, chance: Chance) -> None:
    """Mostly of instances that a fault has failed."""
    cells = list(world.state.cells.values())
    pinned = [each.id for each in cells if is_pinned(world.state, each)]
    if pinned and chance.random() < 0.3:
        _control(world, chance, "unpin", cell=chance.choice([*pinned, cells[0].id]))
    failed = [each.id for each in cells if each.fault is not None]
    if not failed and chance.random() < 0.8:
        return
    for _ in range(chance.choice([1, 1, 3])):
        some = failed if failed and chance.random() < 0.9 else [each.id for each in cells]
        cell = chance.choice([*some, *some, *some, ("s/w0@1", b"nobody"), ("s/none@1", b"")])
        _control(world, chance, chance.choice(["retry", "retry", "skip"]), cell=cell)


def cancel(world: SimWorld, chance: Chance) -> None:
    for _ in range(chance.choice([1, 1, 2])):
        some: list[Any] = [content_hash(b"another"), *list(world.state.abandoned)[:1]]
        _control(
            world, chance, "cancel", intent=chance.choice([*some, *list(world.state.intents) * 4])
        )


def answer(world: SimWorld, chance: Chance) -> None:
    """An operator settles open intents, also those of the core itself, and some of them twice."""
    for _ in range(chance.choice([1, 1, 2])):
        intents = list(world.state.intents.values())
        if not intents:
            return
        intent = chance.choice(intents)
        status = chance.choice(["ok", "ok", "error"])
        payload = _payload(intent.effect.name, status, world, chance)
        if chance.random() < 0.2:
            payload = chance.choice([cbor("misfit"), b"\xff", cbor({"code": "c"}), bytes(9000)])
        for _ in range(chance.choice([1, 1, 1, 2])):
            _control(world, chance, "settle", intent=intent.intent, status=status, payload=payload)


def end(world: SimWorld, chance: Chance) -> None:
    """An operator ends or removes instances, mostly those with open work, and some of them
    twice."""
    cells = list(world.state.cells.values())
    if not cells and chance.random() < 0.9:
        return
    busy = [each.id for each in cells if not each.is_at_rest]
    pinned = [each.id for each in cells if is_pinned(world.state, each)]
    some = [*busy * 6, *pinned * 6, *[each.id for each in cells] * 3, ("s/w0@1", b"nobody")]
    for _ in range(chance.choice([1, 1, 3])):
        cell = chance.choice(some)
        why = chance.choice([None, None, "it is a ghost"])
        for _ in range(chance.choice([1, 1, 1, 2])):
            if chance.random() < 0.3:
                _control(world, chance, "remove", cell=cell, why=why)
            else:
                status = chance.choice(["completed", "failed"])
                _control(world, chance, "end", cell=cell, status=status, why=why)


def erase(world: SimWorld, chance: Chance) -> None:
    """Any long value that there ever was: states, events, payloads, manifests; and what the newest
    snapshot is made of."""
    some = [*world.history.values, content_hash(b"another")]
    last = world.store.snapshot_before()
    if last is not None and chance.random() < 0.2:
        some = sorted(parts(last.document, world.store.blob))
    modules = world.plans[max(1, world.version)].loaded.modules
    if world.state.proposals.open and chance.random() < 0.3:
        plan = world.plans[chance.randint(1, VERSIONS)]
        some, modules = [], plan.loaded.modules
    value = Hash(chance.choice([*some, *some, *modules]))
    if not _is_part_of_an_older(world, value):
        _control(world, chance, "erase", value=value)


def _is_part_of_an_older(world: SimWorld, value: Hash) -> bool:
    """The host refuses that (H-47e); the core knows the newest snapshot only."""
    newest = world.state.snapshot
    row = snapshot_with(world.store, value)
    return row is not None and (newest is None or row.document != newest.document)


def leap(world: SimWorld, chance: Chance) -> None:
    """A clock is ahead for some inputs, and then right again."""
    right_ns = world.now_ns
    world.now_ns += chance.choice([59 * SECOND, 61 * SECOND, 3600 * SECOND, 8 * DAY, 3650 * DAY])
    for kind in chance.choices([send, settle, stream, attempt, retry], k=chance.choice([1, 1, 2])):
        kind(world, chance)
    world.now_ns = right_ns
    if chance.random() < 0.6:
        mend(world, chance)


def mend(world: SimWorld, chance: Chance) -> None:
    for _ in range(chance.choice([1, 1, 2])):
        _control(world, chance, "clock")


def control(world: SimWorld, chance: Chance) -> None:
    action = chance.choice(["retry", "skip", "cancel", "erase", "settle", "end", "remove", ""])
    some: dict[str, Any] = {
        "cell": ("s/w0@1", b""), "intent": bytes(32), "value": bytes(31), "status": "completed",
        "payload": b"\xf6",
    }  # fmt: skip
    about = chance.sample(list(some), chance.randint(0, 3))
    _control(world, chance, action, **{name: some[name] for name in about})


def apply(world: SimWorld, chance: Chance) -> None:
    """A manifest: the next version mostly, at rest mostly."""
    version = world.version % VERSIONS + 1
    pins = bool(world.version) and chance.random() < 0.4
    if world.version and not pins and chance.random() < 0.7:
        _come_to_rest(world, chance)
    if world.version and chance.random() < 0.15:
        version = chance.randint(1, VERSIONS)
    _apply(world, chance, version, pins=pins)


def _apply(world: SimWorld, chance: Chance, version: int, *, pins: bool = False) -> None:
    plan = world.plans[version]
    world.modules.add(plan)
    serial = world.state.serial
    given: Given = {"document": plan.document, "principal": "operator", "serial": serial}
    if world.version and chance.random() < 0.12:
        wrong: list[Given] = [
            {"serial": serial + 1}, {"principal": "mallory"}, {"document": plan.document[:-1]},
            {"document": cbor({"semantics": 1})}, {"document": b""},
        ]  # fmt: skip
        given |= chance.choice(wrong)
    gone: set[str] = set(world.state.effective.workflows) if world.version else set()
    gone -= set(plan.loaded.effective.workflows)
    if gone and chance.random() < 0.9:
        given["leaves"] = tuple(sorted(gone))
    if pins:
        given["mode"] = "pin"
    if governing.is_governed(world):
        leaves = given.get("leaves", ())
        if chance.random() < 0.6:
            governing.push(world, chance, plan, mode=given.get("mode"), leaves=leaves)
        seq = governing.approved(world, chance, plan.loaded.effective.hash)
        if seq is not None:
            given |= _as_proposed(world, seq, chance)
    signed: list[Any] = [world.id, given["serial"], content_hash(given["document"])]
    message = cbor(["aos/apply/1", *signed])
    if "leaves" in given or "mode" in given:
        more = [given.get("mode", "strict"), list(given.get("leaves", ()))]
        message = cbor(["aos/apply/2", *signed, *more])
    if "proposal" in given:
        more = [given.get("mode", "strict"), list(given.get("leaves", ())), given["proposal"]]
        message = cbor(["aos/apply/3", *signed, *more])
    given["signature"] = OPERATOR_KEY.sign(message).signature
    if world.version and chance.random() < 0.03:
        given["signature"] = bytes(64)
    world.submit("manifest", given, plan.loaded.modules)
    # Executors of the old manifest report: a retired key may still sign, a revoked one may not.
    for task in world.history.late[-3:]:
        _tell(world, _receipt(world, task, chance), chance)


def _as_proposed(world: SimWorld, seq: int, chance: Chance) -> Given:
    """The proposal of an apply, mostly with the mode and the leaves that it has."""
    known = world.state.proposals.open.get(seq)
    if known is None or chance.random() < 0.1:
        return {"proposal": seq}
    mode = {} if known.mode is None else {"mode": known.mode}
    return {"proposal": seq, **mode, **({"leaves": known.leaves} if known.leaves else {})}


def propose(world: SimWorld, chance: Chance) -> None:
    if governing.is_governed(world):
        plan = world.plans[chance.randint(1, VERSIONS)]
        gone = {*world.state.effective.workflows} - {*plan.loaded.effective.workflows}
        mode = chance.choice([None, None, "pin"])
        governing.propose(world, chance, plan, mode=mode, leaves=tuple(sorted(gone)))


def vote(world: SimWorld, chance: Chance) -> None:
    if governing.is_governed(world) and not world.state.proposals.open and chance.random() < 0.8:
        propose(world, chance)
    for _ in range(chance.choice([1, 1, 2, 4])):
        if world.version:
            proposal = governing.some_proposal(world, chance)
            governing.vote(world, chance, proposal, chance.choice(["approve"] * 4 + ["reject"]))


def report(world: SimWorld, chance: Chance) -> None:
    if world.version:
        governing.report(world, chance, governing.some_proposal(world, chance))


def withdraw(world: SimWorld, chance: Chance) -> None:
    if world.version:
        governing.withdraw(world, chance, governing.some_proposal(world, chance))


def rotate(world: SimWorld, chance: Chance) -> None:
    """Apply a new manifest while executors work for an instance that no longer waits: one of its
    receipts does not fit, and the kernel abandons the others (K-55)."""
    _flush(world)
    by_cell: dict[Any, list[Task]] = {}
    for task in list(world.tasks.values()):
        if task.began:
            by_cell.setdefault(task.intent.cell, []).append(task)
    crowded = [tasks for tasks in by_cell.values() if len(tasks) > 1]
    if not crowded:
        return
    task = chance.choice(crowded)[0]
    _, key = signer = _true_signer(task, chance)
    given = _unsigned(world, task, "error", signer, chance)
    given["signature"] = key.sign(receipt_message(world.id, given) or b"").signature
    world.submit("receipt", given)
    for _ in range(50):
        if not world.step():
            break
    _flush(world)
    _come_to_rest(world, chance)
    versions = [world.plans[each] for each in range(1, VERSIONS + 1)]
    revoking = [each.version for each in versions if bytes(key.verify_key) in each.revoked]
    _apply(
        world,
        Chance(chance.getrandbits(32)),
        chance.choice([*revoking * 4, *range(1, VERSIONS + 1)]),
    )


def _come_to_rest(world: SimWorld, chance: Chance) -> None:
    """Prepare an apply as operators do: cancel open effects, then run until idle."""
    for _ in range(3):
        for intent in list(world.state.intents.values()):
            if intent.effect.name not in KERNEL_EFFECTS:
                _control(world, Chance(0), "cancel", intent=intent.intent)
        for _ in range(200):
            if not world.step():
                break


# Processes and disks


def step(world: SimWorld, chance: Chance) -> None:
    for _ in range(chance.choice([1, 2, 5, 20])):
        if not world.step():
            return


def seal(world: SimWorld, chance: Chance) -> None:
    world.seal()


def commit(world: SimWorld, chance: Chance) -> None:
    if chance.random() < 0.8:
        world.seal()
    world.commit("ok")


def flush(world: SimWorld, chance: Chance) -> None:
    _flush(world)


def _flush(world: SimWorld) -> None:
    world.seal()
    world.commit("ok")


def crash(world: SimWorld, chance: Chance) -> None:
    """Crash: every frame that was not durable is lost. The next process may only admit inputs."""
    world.crash(runs=chance.random() < 0.8)


def stop(world: SimWorld, chance: Chance) -> None:
    """A process ends as it should, and another begins."""
    _flush(world)
    crash(world, chance)


def no_room(world: SimWorld, chance: Chance) -> None:
    """The disk is full; the same frames are tried again until there is room."""
    world.seal()
    for _ in range(chance.randint(1, 3)):
        world.commit("no_room")
    if chance.random() < 0.5:
        world.commit("ok")


def lost(world: SimWorld, chance: Chance) -> None:
    world.seal()
    world.commit("lost")


def kept(world: SimWorld, chance: Chance) -> None:
    world.seal()
    world.commit("kept")


def snapshot(world: SimWorld, chance: Chance) -> None:
    """Make a snapshot, or continue the one in progress, partly or to its end."""
    if chance.random() < 0.4:
        _flush(world)
    world.snapshot(chance)
    if chance.random() < 0.5:
        _flush(world)
    # Retry or skip a cell that failed before the snapshot.
    for cell in [each for each in world.state.cells.values() if each.fault is not None]:
        if chance.random() < 0.4:
            _control(world, chance, chance.choice(["retry", "skip", "skip"]), cell=cell.id)


def nonsense(world: SimWorld, chance: Chance) -> None:
    """Bytes of one kind where another belongs."""
    intents = [*world.state.intents, *world.state.abandoned, content_hash(b"another")]
    intent = chance.choice(intents)
    match chance.randrange(4):
        case 3:
            _old_snapshot(world, chance)
        case 0:
            number = chance.choice([0, 1, 2, 2**32])
            phase = chance.choice(["begun", "thought", "held"])
            code = None if phase == "held" else chance.choice([None, "x"])
            _attempt(world, intent, number, phase, code)
        case 1:
            world.submit("event", {"schema": "", "value": b"", "submission_id": None})
        case _:
            known = [given for kind, given, _ in world.history.made if kind == "receipt"]
            if known:
                world.submit("receipt", {**chance.choice(known), "intent": intent})


def _old_snapshot(world: SimWorld, chance: Chance) -> None:
    """Of the same place as the last or of an older one, or of one that is not there yet."""
    last = world.state.snapshot
    some = [(0, bytes(32)), (world.state.next_seq + 10**6, bytes(32))]
    if last is not None:
        some += [(last.at, last.document), (last.at, bytes(32)), (last.at - 1, last.document)]
    at, document = chance.choice(some)
    world.submit("snapshot", {"at": at, "frame": bytes(32), "document": document, "size": 1})


_DO: Final[dict[str, Callable[[SimWorld, Chance], None]]] = {
    each.__name__: each
    for each in (
        send, settle, batch, again, stream, attempt, reap, retry, cancel, erase, control, apply,
        rotate, step, seal, commit, flush, crash, stop, no_room, lost, kept, nonsense,
        snapshot, answer, end, leap, mend, propose, vote, report, withdraw,
    )
}  # fmt: skip

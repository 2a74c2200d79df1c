"""Three versions of a world's manifest, drawn from a seed; each version redraws some parts.

Every world has one to five workflows, keyed or not, with arms present or absent, effects, limits
small enough to be hit, and executors whose keys come, retire and are revoked between versions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

from blake3 import blake3
from nacl.signing import SigningKey

from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.manifest.placement import Placement
from aos.manifest.shards import with_shard
from aos.values.cbor import encode as cbor
from tests.memory_world import WORLD_KEY, air, effect, route, schema, workflow
from tests.sim.naive import ENVELOPE, LEGACY, REJECTED, STREAM, TIMER

VERSIONS: Final = 3
SEEDS_ALIKE: Final = 8
"""Seeds in a row that share their manifests, which take longer to read than a play to run."""

GOVERNED_IN: Final = 5
"""Of so many worlds in a row, one is governed."""

BY_BAR: Final = Placement(kind="key", shard_by="|")
GROUPED_IN: Final = 7
"""Of so many worlds in a row, one is a shard of a group."""

SECOND: Final = 10**9

TEXT: Final[dict[str, object]] = {"text": {}}
NAT: Final[dict[str, object]] = {"nat": {}}
BYTES: Final[dict[str, object]] = {"bytes": {}}

ARMS: Final = {
    "envelope": ENVELOPE,
    "rejected": REJECTED,
    "stream": STREAM,
    **{f"legacy{i}": name for i, name in enumerate(LEGACY.values())},
}
"""Tag of a continuation's arm -> its schema."""

_OFTEN: Final = {"envelope": 0.75, "stream": 0.6}

BY_KEY: Final[dict[str | None, tuple[str, ...]]] = {
    "text": ("s/A@1", "s/B@1", "s/V@1"),
    "nat": ("s/N@1",),
    None: ("s/A@1", "s/B@1", "s/N@1", "s/F@1", "s/V@1"),
}
"""Kind of a workflow's key -> the events that it can be routed."""

EVENTS: Final = BY_KEY[None]
PAYS: Final = ("s/pay@1", "s/once@1", "s/wide@1", "s/odd@1")
"""Effects of the world's own; all have the same params and receipt."""

CANCELS: Final = ("sys/timer.cancel@1", "sys/effect.cancel@1")
INTROSPECTS: Final = (
    "sys/introspect.manifest@1", "sys/introspect.workflow_state@1",
    "sys/introspect.journal_head@1", "sys/introspect.list_cells@1",
)  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """One workflow of one version. ``event`` is the schema that it is called with, ``takes`` the
    events of senders that it takes; ``trouble`` how often its module does something wrong."""

    name: str
    key: str | None
    event: str
    is_single: bool
    takes: tuple[str, ...]
    arms: tuple[str, ...]
    effects: tuple[str, ...]
    annotations: bool
    context: bool
    explicit: bool
    is_wide: bool
    trouble: float
    in_place: bool = False


@dataclass(frozen=True)
class Plan:
    """One version of a world's manifest."""

    seed: int
    version: int
    loaded: Loaded
    flows: tuple[Flow, ...]
    events: tuple[str, ...]
    signers: dict[str, tuple[tuple[str, SigningKey], ...]]
    """Effect -> who may sign for it: (executor, key)."""
    revoked: frozenset[bytes]

    @property
    def document(self) -> bytes:
        return self.loaded.effective.document


@cache
def key_named(label: str) -> SigningKey:
    return SigningKey(blake3(label.encode()).digest())


def plans_of(seed: int) -> Plans:
    return _family(seed // SEEDS_ALIKE)


@lru_cache(4)
def _family(number: int) -> Plans:
    return Plans(number)


class Plans:
    """The versions of a world's manifest, made when they are asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._made: dict[int, Plan] = {}
        base = random.Random(f"world {seed}")
        self.names = [f"s/w{i}@1" for i in range(base.choice([1, 2, 2, 3, 3, 4, 5]))]
        self.has_list = base.random() < 0.6
        self.is_in_group = seed % GROUPED_IN == 6
        self.rotations = [
            base.choice(["same", "retire", "revoke", "revoke", "back"]) for _ in range(VERSIONS)
        ]

    def __getitem__(self, version: int) -> Plan:
        if version not in self._made:
            self._made[version] = self._make(version)
        return self._made[version]

    def made(self) -> list[Plan]:
        return list(self._made.values())

    def _chance(self, what: str, version: int) -> random.Random:
        """The same for all versions, but for one in three."""
        drawn = random.Random(f"{self.seed} {what} {version}")
        return drawn if drawn.random() < 0.3 else random.Random(f"{self.seed} {what}")

    def _make(self, version: int) -> Plan:
        flows = [_flow(name, self._chance(name, version)) for name in self.names]
        whim = random.Random(f"{self.seed} whim {version}")
        if version > 1 and len(flows) > 1 and whim.random() < 0.2:
            flows.pop(whim.randrange(len(flows)))
        if version > 1 and whim.random() < 0.1:
            flows = [Flow(**{**each.__dict__, "effects": ()}) for each in flows]
        flows = [
            replace(
                each,
                in_place=self._in_place(each.name, version),
                is_wide=self._has_grown(each.name, version),
            )
            for each in flows
        ]
        late: dict[str, object] = {"option": NAT}
        nodes, events = _nodes(
            self.seed,
            flows,
            self._chance("types", version),
            in_events={"late": late} if self._has_grown("events", version) else {},
            in_params={"late": late} if self._has_grown("params", version) else {},
            may_be_wide=not self.is_in_group,
        )
        signers, manifest = self._executors(version, flows)
        routes = _some_only_to_existing(
            _routes(flows, self._chance("routes", version)), self._chance("creates", version)
        )
        routing = _routing(routes, self._chance("ingress", version))
        if self.is_in_group:
            routing["shards"] = self._placements(flows)
        loaded = air(
            nodes,
            routes,
            routing=routing,
            version=self.seed * 10 + version,
            limits=_limits(self._chance("limits", version)),
            **self._governance(version),
            schemas=[{"name": node["name"]} for node in nodes if node["$kind"] == "defschema"],
            **manifest,
        )
        if self.is_in_group:
            loaded = replace(loaded, effective=self._in_shard(loaded.effective, version))
        executors = (loaded.effective.executors or {}).values()
        revoked = frozenset(key for each in executors for key in each.revoked_keys)
        return Plan(self.seed, version, loaded, tuple(flows), events, signers, revoked)

    def _placements(self, flows: list[Flow]) -> list[dict[str, str]]:
        """One that is fit for a group, whatever the routes are: text keys are placed by their part,
        all others in each shard. Some text keys are in each shard, too."""
        each_shard = random.Random(f"{self.seed} each")
        in_each = {name for name in self.names if each_shard.random() < 0.2}
        return [
            {"workflow": flow.name, "shard_by": "|"}
            if flow.key == "text" and flow.name not in in_each
            else {"workflow": flow.name, "shard": "each"}
            for flow in flows
        ]

    def _in_shard(self, manifest: Effective, version: int) -> Effective:
        """The manifest of this world's shard; of a later version, now and then that of another."""
        chance = random.Random(f"{self.seed} shard")
        count = chance.choice([2, 2, 3])
        index = chance.randrange(count)
        if version > 1 and random.Random(f"{self.seed} shard {version}").random() < 0.1:
            index = (index + 1) % count
        return with_shard(manifest, index, count)

    def _governance(self, version: int) -> dict[str, Any]:
        """One world in five is governed; a version of it may name others, or no one."""
        if self.seed % GOVERNED_IN != 3:
            return {}
        chance = self._chance("governance", version)
        names = chance.sample("abcd", chance.randint(1, 4))
        if version > 1 and chance.random() < 0.15:
            return {}
        block: dict[str, Any] = {
            "approvers": [
                {"name": name, "public_key": _spelled(_approver(self.seed, name))} for name in names
            ],
            "quorum": chance.randint(1, len(names)),
        }
        shadow = chance.choice([0, 0, 0, 3, 1000])
        return {"governance": {**block, **({"shadow_records": shadow} if shadow else {})}}

    def _in_place(self, flow: str, version: int) -> bool:
        return version > 1 and random.Random(f"{self.seed} {flow} {version}").random() < 0.2

    def _has_grown(self, what: str, version: int) -> bool:
        """Whether a type has a field of type option that an earlier version may lack (K-71d)."""
        return version >= random.Random(f"{self.seed} {what} grows").choice([1, 2, 2, 3, 9])

    # Executors and their keys. The shop's key changes from version to version.

    def _executors(self, version: int, flows: list[Flow]) -> tuple[dict[str, Any], dict[str, Any]]:
        emitted = sorted({each for flow in flows for each in flow.effects})
        asked = [each for each in emitted if each not in (*CANCELS, *INTROSPECTS)]
        if not self.has_list:
            return dict.fromkeys(asked, (("node", WORLD_KEY),)), {}
        chance = self._chance("executors", version)
        own, foreign = (
            [each for each in asked if each in PAYS],
            [each for each in asked if each not in PAYS],
        )
        named: list[tuple[str, SigningKey, list[str]]] = [
            ("node", WORLD_KEY, foreign + [each for each in own if chance.random() < 0.2]),
            (
                "shop",
                self._shop_key(version),
                own + [each for each in foreign if chance.random() < 0.2],
            ),
        ]
        if chance.random() < 0.3:
            named.append(("desk", key_named(f"{self.seed} desk"), own[:1]))
        signers = {
            each: tuple((name, key) for name, key, effects in named if each in effects)
            for each in asked
        }
        entries: list[dict[str, Any]] = [
            {"name": name, "public_key": _spelled(key), "effects": effects}
            for name, key, effects in named
        ]
        entries[1] |= self._old_keys(version)
        if version > 1 and chance.random() < 0.04:
            # Another key under the node's name: the core refuses this manifest.
            entries[0]["public_key"] = _spelled(key_named("mallory"))
        elif version > 1 and chance.random() < 0.06:
            # The manifest revokes the world's own key: no executor is ``node`` any more.
            entries[1]["effects"] = asked
            entries[1].setdefault("revoked_keys", []).append(_spelled(WORLD_KEY))
            signers = {each: (("shop", self._shop_key(version)),) for each in asked}
            del entries[0]
        return signers, {"executors": entries}

    def _generation(self, version: int) -> int:
        """How many keys the shop had before; a version may go back to the first."""
        if version > 1 and self.rotations[version - 1] == "back":
            return 0
        return sum(each in ("retire", "revoke") for each in self.rotations[1:version])

    def _shop_key(self, version: int) -> SigningKey:
        return key_named(f"{self.seed} shop {self._generation(version)}")

    def _old_keys(self, version: int) -> dict[str, list[str]]:
        old: dict[str, list[str]] = {"retired_keys": [], "revoked_keys": []}
        for i in range(self._generation(version)):
            rotation = [each for each in self.rotations[1:version] if each in ("retire", "revoke")][
                i
            ]
            where = "revoked_keys" if rotation == "revoke" else "retired_keys"
            old[where].append(_spelled(key_named(f"{self.seed} shop {i}")))
        return old


def _approver(family: int, name: str) -> SigningKey:
    return key_named(f"{family} approver {name}")


def approver_key(seed: int, name: str) -> SigningKey:
    """The key of an approver in the world of a seed."""
    return _approver(seed // SEEDS_ALIKE, name)


def is_governed(seed: int) -> bool:
    """Whether some version of the manifest of a seed's world names approvers."""
    return (seed // SEEDS_ALIKE) % GOVERNED_IN == 3


def _spelled(key: SigningKey) -> str:
    return f"ed25519:{bytes(key.verify_key).hex()}"


def _flow(name: str, chance: random.Random) -> Flow:
    key = chance.choice([None, "text", "text", "text", "nat"])
    takes = BY_KEY[key]
    takes = tuple(chance.sample(takes, chance.randint(1, min(3, len(takes)))))
    is_single = chance.random() < 0.15
    arms: list[str] = []
    if not is_single:
        arms = [each for each in ARMS if chance.random() < _OFTEN.get(each, 0.45)]
    effects: list[str] = []
    if "envelope" in arms:
        all_of = [
            *PAYS,
            *PAYS,
            TIMER,
            TIMER,
            *CANCELS,
            *INTROSPECTS,
            "sys/blob.put@1",
            "sys/blob.get@1",
        ]
        effects = sorted({chance.choice(all_of) for _ in range(chance.randint(0, 9))})
    else:
        effects = [
            effect for effect, arm in LEGACY.items() if any(ARMS[each] == arm for each in arms)
        ]
    return Flow(
        name=name, key=key, event=takes[0] if is_single else name.replace("/w", "/Event"),
        is_single=is_single, takes=takes[:1] if is_single else takes, arms=tuple(arms),
        effects=tuple(effects), annotations=chance.random() < 0.3,
        context=chance.random() < 0.5, explicit=chance.random() < 0.15,
        is_wide=False, trouble=chance.choice([0.0, 0.02, 0.05, 0.1, 0.2]),
    )  # fmt: skip


def _nodes(
    seed: int,
    flows: list[Flow],
    chance: random.Random,
    *,
    in_events: dict[str, object],
    in_params: dict[str, object],
    may_be_wide: bool,
) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    more = chance.choice([BYTES, BYTES, {"option": BYTES}])
    common = {"n": NAT, "ref": {"option": TEXT}, "more": more, **in_events}
    nodes = [
        schema("s/A@1", {"record": {"k": TEXT, "also": TEXT, **common}}),
        schema("s/B@1", {"record": {"k": TEXT, "also": TEXT, **common}}),
        schema("s/N@1", {"record": {"k": NAT, "also": NAT, **common}}),
        schema("s/F@1", {"record": {"n": NAT}}),
        schema("s/V@1", {"variant": {"Left": {"ref": "s/A@1"}, "Right": {"ref": "s/F@1"}}}),
    ]
    if any(flow.key == "text" for flow in flows):
        nodes.append(schema("s/KeyText@1", TEXT))
    if any(flow.key == "nat" for flow in flows):
        nodes.append(schema("s/KeyNat@1", NAT))
    if any(flow.annotations for flow in flows):
        nodes.append(schema("s/Note@1", {"record": {"why": TEXT, "n": {"option": NAT}}}))
    events = list(EVENTS)
    for flow in flows:
        nodes += _flow_nodes(flow)
        if not flow.is_single:
            events.append(flow.event)
    pays = sorted({each for flow in flows for each in flow.effects if each in PAYS})
    if pays:
        paid = {"code": TEXT, "message": TEXT, "retryable": {"option": {"bool": {}}}}
        nodes += [
            schema(
                "s/Pay@1",
                {"record": {"n": NAT, "memo": BYTES, "why": {"option": TEXT}, **in_params}},
            ),
            schema("s/Paid@1", {"record": paid}),
        ]
    for name in pays:
        traits = random.Random(f"{seed} {name}")
        once = name == "s/once@1" or (name == "s/odd@1" and traits.random() < 0.5)
        wide = name == "s/wide@1" or (name == "s/odd@1" and traits.random() < 0.5)
        nodes.append(
            effect(
                name, "s/Pay@1", "s/Paid@1", impl={"executor": "shop"},
                **({"delivery": "at_most_once"} if once else {}),
                **({"idempotency_scope": "world"} if wide and may_be_wide else {}),
            )
        )  # fmt: skip
    return nodes, tuple(events)


def _flow_nodes(flow: Flow) -> list[dict[str, object]]:
    state: dict[str, object] = {
        "n": NAT, "log": {"list": TEXT}, "refs": {"list": TEXT}, "pad": BYTES,
    }  # fmt: skip
    if flow.is_wide:
        state["extra"] = {"option": NAT}
    state_name = flow.name.replace("/w", "/State")
    nodes = [schema(state_name, {"record": state})]
    if not flow.is_single:
        variant = {tag: {"ref": ARMS[tag]} for tag in flow.arms}
        variant |= {tag_of(name): {"ref": name} for name in flow.takes}
        nodes.append(schema(flow.event, {"variant": variant}))
    more: dict[str, object] = {}
    if flow.in_place:
        more["upgrade"] = "in_place"
    if flow.key is not None:
        more["key_schema"] = {"text": "s/KeyText@1", "nat": "s/KeyNat@1"}[flow.key]
    if flow.annotations:
        more["annotations"] = "s/Note@1"
    if flow.context:
        more["context"] = "sys/WorkflowContext@1"
    if flow.explicit:
        more["lifecycle"] = "explicit"
    nodes.append(
        workflow(flow.name, state=state_name, event=flow.event, effects=flow.effects, **more)
    )
    return nodes


def tag_of(event: str) -> str:
    return f"on{event[2]}"


def _routes(flows: list[Flow], chance: random.Random) -> list[dict[str, object]]:
    found: list[tuple[str, str, str | None]] = []
    for flow in flows:
        for event in flow.takes:
            if chance.random() < 0.1:
                continue
            if flow.key is None:
                found.append((event, flow.name, None))
                continue
            prefix = "$value." if event == "s/V@1" else ""
            found.append((event, flow.name, f"{prefix}k"))
            if chance.random() < 0.25:
                found.append((event, flow.name, f"{prefix}also"))
        if not flow.is_single and chance.random() < 0.15:
            has_key = any(event in ("s/A@1", "s/B@1", "s/N@1") for event in flow.takes)
            if flow.key is None or has_key:
                found.append((flow.event, flow.name, None if flow.key is None else "$value.k"))
    chance.shuffle(found)
    return [route(*each) for each in found]


def _some_only_to_existing(
    routes: list[dict[str, object]], chance: random.Random
) -> list[dict[str, object]]:
    """Let some routes create no instance (K-42a)."""
    return [{**each, "creates": False} if chance.random() < 0.15 else each for each in routes]


def _routing(routes: list[dict[str, object]], chance: random.Random) -> dict[str, object]:
    """Let one manifest in five accept only some of its events from outside (M-30b)."""
    found: dict[str, object] = {"subscriptions": routes}
    if chance.random() < 0.2:
        events = sorted({str(each["event"]) for each in routes})
        found["ingress"] = [event for event in events if chance.random() < 0.8]
    return found


def _limits(chance: random.Random) -> dict[str, dict[str, int]]:
    def some(*choices: int | None) -> int | None:
        return chance.choice(choices)

    world = {
        "event_bytes": some(None, None, None, 4096, 8192),
        "cascade_depth": some(1, 3, 5, 8, None, None),
        "cascade_steps": some(2, 6, 12, 20, 30, 40),
        "mailbox": some(1, 2, 3, 5, 20, None),
        "instance_intents": some(2, 4, 6, None, None),
        "open_intents": some(5, 10, 20, None, None),
        "dedup_ns": some(SECOND, 3 * SECOND, None),
        "dedup_rows": some(1, 2, 4, 12, None),
        "instance_keys": some(1, 2, None),
        "abandoned_intents": some(1, 2, 5, None),
        "stream_bytes": some(5, 16, 2000, None, None, None),
        "stream_rate": some(1, 2, None),
        "stream_frames": some(1, 3, 6, None, None),
    }
    # Its own chance, so that the draws of all other parts stay as they are.
    steps = random.Random(repr(world))
    world["dedup_step_ns"] = steps.choice([SECOND // 10, SECOND, None])
    step = {
        "effects": some(0, 2, 3, 4, *[None] * 8),
        "events": some(0, 2, 3, 4, *[None] * 8),
        "state_bytes": some(300, 3000, *[None] * 6),
        "output_bytes": some(2500, 6000, *[None] * 6),
        "keys": some(1, 2, *[None] * 6),
    }
    return {
        "world": {name: number for name, number in world.items() if number is not None},
        "step": {name: number for name, number in step.items() if number is not None},
    }


# Values of events, shared by senders and modules.


def some_event(plan: Plan, event: str, chance: random.Random, ref: str | None = None) -> Any:
    """A value of the event schema; of a continuation's arm, where it has one, now and then."""
    match event:
        case "s/F@1":
            return {"n": chance.randrange(5)}
        case "s/V@1":
            if chance.random() < 0.15:
                return {"$tag": "Right", "$value": {"n": 1}}
            return {"$tag": "Left", "$value": some_event(plan, "s/A@1", chance, ref)}
        case "s/A@1" | "s/B@1" | "s/N@1":
            keys: list[Any] = _text_keys(plan, chance) if event != "s/N@1" else [0, 1, 2, 300]
            if event != "s/N@1" and chance.random() < 0.05:
                keys = [chance.choice("klm") * chance.choice([1021, 1021, 1022])]
            return {
                "k": chance.choice(keys), "also": chance.choice(keys), "n": chance.randrange(2**40),
                "ref": ref, "more": bytes(chance.choice([0, 0, 0, 0, 5, 1100, 3000])),
            }  # fmt: skip
    flow = next(each for each in plan.flows if each.event == event)
    tag = chance.choice([tag_of(each) for each in flow.takes])
    named = next(each for each in flow.takes if tag_of(each) == tag)
    if "rejected" in flow.arms and chance.random() < 0.2:
        return {"$tag": "rejected", "$value": _counterfeit()}
    return {"$tag": tag, "$value": some_event(plan, named, chance, ref)}


def _text_keys(plan: Plan, chance: random.Random) -> list[str]:
    """Few, so that they meet; in a group, mostly those of this shard."""
    shard = plan.loaded.effective.shard
    if shard is None:
        return ["a", "b", "c", "d"]
    keys = [f"{part}{rest}" for part in (*"abcdefgh", "") for rest in ("", "|1")]
    near = [key for key in keys if BY_BAR.shard(cbor(key), shard.count) == shard.index]
    return near[:4] if chance.random() < 0.9 else keys


def _counterfeit() -> Any:
    """A continuation that fits its schema but that no sender may deliver (M-35)."""
    none = dict.fromkeys(
        ("origin_workflow_hash", "origin_instance_key", "effect_hash", "executor_module",
         "executor_module_hash", "executor_entrypoint", "params_hash", "issuer_ref")
    )  # fmt: skip
    hash = f"blake3:{bytes(32).hex()}"
    return {
        **none, "origin_module_id": "s/w0@1", "intent_id": hash, "effect": TIMER, "status": "ok",
        "error_code": "c", "error_message": "m", "payload_hash": hash, "payload_size": 1,
        "emitted_at_seq": 1,
    }  # fmt: skip

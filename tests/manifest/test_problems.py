"""Invalid changes of the valid manifest. ``problems.txt`` has the messages that an author reads.

After a change of the messages, ``REWRITE=1 pytest tests/manifest/test_problems.py`` writes the
file again; read its difference as an author would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aos.manifest.load import ManifestProblems, Problem
from tests.manifest.example import (
    GOOD,
    MANIFEST,
    NAT,
    SCHEMAS,
    TEXT,
    good,
    key,
    lines,
    loaded,
    node,
    schema,
)

Documents = dict[str, Any]
Change = Callable[[Documents], None]


ORDER = "acme/order.step@1"
CHARGE = "acme/charge@1"
MODULE = "acme/orders@1"
ZEROS = "0" * 64
REMOVED = object()


def put(name: str, *path: str | int, to: object) -> Change:
    """Set ``path`` in the definition (or manifest) of that name to ``to``, or remove it."""

    def change(documents: Documents) -> None:
        here: Any = node(documents, name)
        for step in path[:-1]:
            here = here[step]
        if to is REMOVED:
            del here[path[-1]]
        else:
            here[path[-1]] = to

    return change


def executor_keys(documents: Documents) -> list[str]:
    """The keys of the executor ``billing``: in force, retired and revoked."""
    billing = documents[MANIFEST]["executors"][1]
    billing["revoked_keys"] = [key(8)]
    return [billing["public_key"], *billing["retired_keys"], *billing["revoked_keys"]]


def subscribe(**entry: str | bool) -> Change:
    return lambda documents: documents[MANIFEST]["routing"]["subscriptions"].append(entry)


def accept(*schemas: str) -> Change:
    """List ``schemas`` as the only events from outside."""
    return put("manifest", "routing", "ingress", to=list(schemas))


def shard(*entries: object) -> Change:
    """Place workflows in the shards of a group."""
    return put("manifest", "routing", "shards", to=list(entries))


def add(file: str, *nodes: object) -> Change:
    def change(documents: Documents) -> None:
        documents[file] = [*documents.get(file, []), *nodes]

    return change


def drop(file: str) -> Change:
    def change(documents: Documents) -> None:
        del documents[file]

    return change


STRUCTURE: list[tuple[str, Change]] = [
    ("nothing", lambda _: None),
    ("an unknown field", put(ORDER, "evnts", to="acme/OrderEvent@1")),
    ("a misspelt field", put("acme/count@1", "key_schma", to="acme/OrderId@1")),
    ("a missing field", put(ORDER, "effects_emitted", to=REMOVED)),
    ("a misspelt kind", put(CHARGE, "$kind", to="defefect")),
    ("no kind", put(CHARGE, "$kind", to=REMOVED)),
    ("a number for a kind", put(CHARGE, "$kind", to=1)),
    ("no node at all", add(SCHEMAS, ["x"])),
    ("a bad name", put(CHARGE, "name", to="charge")),
    ("a name with a newline behind it", put(CHARGE, "name", to=f"{CHARGE}\n")),
    ("text for an array", put(ORDER, "effects_emitted", to="x")),
    ("a misspelt choice", put(ORDER, "lifecycle", to="quiecent")),
    ("an empty entrypoint", put(ORDER, "impl", "entrypoint", to="")),
    ("a limit over its cap", put(ORDER, "limits", to={"fuel": 10**12 + 1})),
    ("a limit of the world over its cap", put("manifest", "limits", "world", "mailbox", to=0)),
    ("true for a number", put(ORDER, "limits", "fuel", to=True)),
    ("an unknown limit", put(ORDER, "limits", to={"feul": 5})),
    (
        "both forms of impl",
        put(CHARGE, "impl", to={"executor": "billing", "module": MODULE, "entrypoint": "x"}),
    ),
    ("half of impl", put(CHARGE, "impl", to={"module": MODULE})),
    ("both op and workflow", put("manifest", "routing", "subscriptions", 0, "op", to=ORDER)),
    ("a hash of AIR v2", put("manifest", "schemas", 0, "hash", to=f"sha256:{ZEROS}")),
    ("a short hash", put("manifest", "schemas", 0, "hash", to="blake3:00")),
    ("another version of AIR", put("manifest", "air_version", to="1")),
    ("another runtime", put(MODULE, "runtime", "kind", to="python")),
    ("an absolute path", put(MODULE, "runtime", "artifact", "path", to="/etc/x.wasm")),
    ("a key of another form", put("manifest", "executors", 0, "public_key", to="ed25519:0")),
    ("no attempt at all", put(CHARGE, "retry", "attempts", to=0)),
]


REFERENCES: list[tuple[str, Change]] = [
    ("a definition of ours", add(SCHEMAS, schema("sys/Tick@1", NAT))),
    (
        "built-in definitions listed",
        lambda documents: documents[MANIFEST].update(
            effects=[{"name": CHARGE}, {"name": "sys/timer.set@1"}],
            schemas=[{"name": "sys/WorkflowContext@1"}],
        ),
    ),
    (
        "a built-in definition that does not exist",
        put("manifest", "effects", to=[{"name": CHARGE}, {"name": "sys/timer.sett@1"}]),
    ),
    ("a misspelt schema", put(ORDER, "state", to="acme/OrderStat@1")),
    ("a name of another kind", put(ORDER, "state", to=CHARGE)),
    ("an unknown module", put(ORDER, "impl", "module", to="acme/ordres@1")),
    (
        "unknown effects",
        put(ORDER, "effects_emitted", to=["acme/chrge@1", "sys/task.run@1", "sys/foo@1"]),
    ),
    ("an effect emitted twice", put(ORDER, "effects_emitted", to=[CHARGE, CHARGE])),
    ("a name listed three times", put("manifest", "modules", to=[{"name": MODULE}] * 3)),
    ("a workflow that is not listed", put("manifest", "workflows", to=[{"name": ORDER}])),
    ("an effect that is not listed", put("manifest", "effects", to=[])),
    ("a module that is not listed", put("manifest", "modules", to=[])),
    ("a schema that nothing reaches", add(SCHEMAS, schema("acme/Spare@1", TEXT))),
    (
        "the same definition twice",
        add("air/more.air.json", {**schema("acme/OrderId@1", TEXT), "$comment": "once more"}),
    ),
    ("another definition of one name", add("air/more.air.json", schema("acme/OrderId@1", NAT))),
    (
        "one name for things of two kinds",
        lambda documents: (
            documents[SCHEMAS].append(schema(CHARGE, TEXT)),
            documents[MANIFEST]["schemas"].append({"name": CHARGE}),
        )[0],
    ),
    ("a hash that does not fit", put("manifest", "schemas", 0, "hash", to=f"blake3:{ZEROS}")),
    (
        "the hash of a module that does not fit",
        put(MODULE, "runtime", "artifact", "hash", to=f"blake3:{ZEROS}"),
    ),
    ("a missing artifact", put(MODULE, "runtime", "artifact", "path", to="x.wasm")),
    ("two manifests", add("air/z.air.json", GOOD[MANIFEST])),
    ("no manifest", drop(MANIFEST)),
]


TYPES: list[tuple[str, Change]] = [
    (
        "a misspelt ref",
        put("acme/Charge@1", "type", to={"record": {"a/b": {"ref": "acme/OrdrId@1"}}}),
    ),
    (
        "a type that others refer to, misspelt",
        put("acme/Placed@1", "type", to={"record": {"order_id": {"txt": {}}}}),
    ),
    (
        "a cycle, and behind it an option of an option",
        lambda documents: (
            put("acme/Charged@1", "type", to={"list": {"ref": "acme/Charged@1"}})(documents),
            put("acme/Charge@1", "type", to={"option": {"option": TEXT}})(documents),
        )[0],
    ),
    (
        "a map with another key type",
        put("acme/Charge@1", "type", to={"map": {"key": {"bool": {}}, "value": TEXT}}),
    ),
    ("an event that is a list", put("acme/OrderEvent@1", "type", to={"list": TEXT})),
    (
        "arms that are no refs, or one ref twice",
        put(
            "acme/OrderEvent@1",
            "type",
            to={
                "variant": {
                    "A": {"ref": "acme/Placed@1"},
                    "B": {"ref": "acme/Placed@1"},
                    "C": TEXT,
                    "M": {"ref": "acme/Moved@1"},
                    "R": {"ref": "sys/EffectReceiptEnvelope@1"},
                }
            },
        ),
    ),
    (
        "no arm for a receipt",
        put(
            "acme/OrderEvent@1",
            "type",
            to={
                "variant": {
                    "P": {"ref": "acme/Placed@1"},
                    "M": {"ref": "acme/Moved@1"},
                    "T": {"ref": "sys/TimerFired@1"},
                }
            },
        ),
    ),
    (
        "no arm for a receipt that an older arm could take",
        put("acme/count@1", "effects_emitted", to=["sys/timer.set@1"]),
    ),
    ("another context", put(ORDER, "context", to="acme/Tick@1")),
]


ROUTING: list[tuple[str, Change]] = [
    (
        "an event that the workflow does not take",
        put("manifest", "routing", "subscriptions", 2, "workflow", to=ORDER),
    ),
    (
        "the whole event, keyed through its arms",
        subscribe(event="acme/OrderEvent@1", workflow=ORDER, key_field="$value.order_id"),
    ),
    (
        "an unknown event and an unknown workflow",
        subscribe(event="acme/Tock@1", workflow="acme/counts@1"),
    ),
    (
        "a subscription to a continuation",
        subscribe(event="sys/EffectReceiptEnvelope@1", workflow=ORDER, key_field="effect"),
    ),
    ("an event of the ingress that nothing defines", accept("acme/Plced@1", "acme/Nope@1")),
    (
        "an event of the ingress that nothing subscribes to",
        accept("acme/Charge@1"),
    ),
    ("a continuation in the ingress", accept("sys/TimerFired@1")),
    ("an event of the ingress twice", accept("acme/Tick@1", "acme/Tick@1")),
    ("a text for the ingress", put("manifest", "routing", "ingress", to="acme/Tick@1")),
    ("no name in the ingress", accept("Tick")),
    ("shards", shard({"workflow": ORDER, "shard_by": "|"})),
    ("shards of no workflow", shard({"shard_by": "|"})),
    (
        "shards of an unknown workflow",
        shard({"workflow": "acme/ordr.step@1", "shard": "each"}),
    ),
    ("shards that are none", shard({"workflow": ORDER}, {"workflow": ORDER, "shard": "one"})),
    (
        "shards by a part and in each",
        shard(
            {"workflow": ORDER, "shard_by": "|", "shard": "each"}, {"workflow": ORDER, "by": "|"}
        ),
    ),
    ("shards by nothing", shard({"workflow": ORDER, "shard_by": ""})),
    ("shards by a field of a text", shard({"workflow": ORDER, "shard_by": "order"})),
    ("shards by a key that is not there", shard({"workflow": "acme/count@1", "shard_by": "|"})),
    (
        "shards of one workflow twice",
        shard({"workflow": ORDER, "shard_by": "|"}, {"workflow": ORDER, "shard": "each"}),
    ),
    ("one subscription twice", subscribe(event="acme/Tick@1", op="acme/count@1")),
    (
        "one subscription twice, and one of them creates nothing",
        subscribe(event="acme/Tick@1", workflow="acme/count@1", creates=False),
    ),
    (
        "creates is no boolean",
        put("manifest", "routing", "subscriptions", 0, "creates", to="no"),
    ),
    (
        "no key for a keyed workflow",
        put("manifest", "routing", "subscriptions", 0, "key_field", to=REMOVED),
    ),
    (
        "a key for an unkeyed workflow",
        put("manifest", "routing", "subscriptions", 2, "key_field", to="count"),
    ),
    (
        "a key field that the event lacks",
        put("manifest", "routing", "subscriptions", 0, "key_field", to="orderid"),
    ),
    (
        "a key of another type",
        put("manifest", "routing", "subscriptions", 0, "key_field", to="cents"),
    ),
    (
        "a key of another type in one arm",
        subscribe(event="acme/OrderEvent@1", workflow=ORDER, key_field="$value.at"),
    ),
    (
        "a key that only a continuation has",
        subscribe(event="acme/OrderEvent@1", workflow=ORDER, key_field="$value.effect"),
    ),
]


EXECUTORS: list[tuple[str, Change]] = [
    ("no list of executors", put("manifest", "executors", to=REMOVED)),
    ("an empty list of executors", put("manifest", "executors", to=[])),
    (
        "an executor for an unknown effect",
        put("manifest", "executors", 1, "effects", to=[CHARGE, "acme/chage@1"]),
    ),
    (
        "a key of small order",
        put("manifest", "executors", 0, "public_key", to=f"ed25519:01{'00' * 31}"),
    ),
    ("one key for two executors", put("manifest", "executors", 0, "public_key", to=key(3))),
    ("one name for two executors", put("manifest", "executors", 0, "name", to="billing")),
    ("waits that shrink", put(CHARGE, "retry", to={"base_ms": 70000})),
]


LATER: list[tuple[str, Change]] = [
    ("the other ABI", put(MODULE, "abi", to="agentos")),
    (
        "a migration from nothing and by nothing",
        lambda documents: node(documents, ORDER).update(
            upgrade="in_place", migrate={"from": "acme/order", "entrypoint": ""}
        ),
    ),
    (
        "an upgrade that is none",
        lambda documents: node(documents, ORDER).update(upgrade="at_once", migrate={"from": 1}),
    ),
    (
        "delivery at most once with a retry, and lanes by no field",
        lambda documents: node(documents, CHARGE).update(
            delivery="at_most_once", retry={"attempts": 2}, lane=["cent", "cents", "cents"]
        ),
    ),
    (
        "delivery at most once",
        lambda documents: node(documents, CHARGE).update(
            delivery="at_most_once", retry={"attempts": 1}
        ),
    ),
    (
        "fields of the manifest",
        lambda documents: documents[MANIFEST].update(
            secrets=[{"name": "acme/key@1"}],
        ),
    ),
    (
        "a governance block of a wrong structure",
        lambda documents: documents[MANIFEST].update(
            governance={"approvers": [], "quorum": 0, "shadow_records": -1, "who": "ann"}
        ),
    ),
    (
        "an approver of a wrong structure",
        lambda documents: documents[MANIFEST].update(
            governance={"approvers": [{"name": "7up", "public_key": "ed25519:00"}, {"name": "ann"}]}
        ),
    ),
    (
        "a quorum that no one can reach, and approvers who are one person",
        lambda documents: documents[MANIFEST].update(
            governance={
                "approvers": [
                    {"name": "ann", "public_key": key(9)},
                    {"name": "bob", "public_key": key(9)},
                    {"name": "ann", "public_key": "ed25519:" + "0" * 64},
                ],
                "quorum": 4,
            }
        ),
    ),
    (
        "an approver with the key of an executor",
        lambda documents: documents[MANIFEST].update(
            governance={
                "approvers": [
                    {"name": f"approver-{index}", "public_key": each}
                    for index, each in enumerate(executor_keys(documents))
                ],
                "quorum": 1,
            }
        ),
    ),
    (
        "packages",
        lambda documents: documents[MANIFEST].update(
            uses=["aos/linear@1", "aos/liner@1", "acme/pay@1", "aos/linear@1"]
        ),
    ),
    (
        "schedules of a wrong structure",
        lambda documents: documents[MANIFEST].update(
            schedules=["x", {}, {"id": 1, "every_ms": 1, "overlap": "x", "seconds": 1}]
        ),
    ),
    (
        "schedules without the package",
        lambda documents: documents[MANIFEST].update(
            schedules=[{"id": "a", "every_ms": 60_000, "event": "acme/Nothing@1"}]
        ),
    ),
    (
        "schedules",
        lambda documents: documents[MANIFEST].update(
            uses=["aos/schedule@1", "aos/linear@1"],
            plans=[{"type": "report", "version": 1, "steps": [{"type": "MAKE"}]}],
            schedules=[
                {"id": "", "every_ms": 60_000, "plan": "report"},
                {"id": "a", "cron": "x", "plan": "report"},
                {"id": "a", "cron": "0 0 * * *", "tz": "Mars", "plan": "report"},
                {"id": "b", "every_ms": 1_000, "plan": "other"},
                {"id": "c", "every_ms": 1_000, "plan": "report", "version": 2},
                {"id": "d", "every_ms": 1_000, "event": "aos/ScheduleSet@1"},
                {"id": "e", "every_ms": 1_000, "event": "acme/Nothing@1", "context": {}},
                {"id": "e", "event": "acme/Nothing@1"},
                {"id": "f", "every_ms": 1_000, "event": "acme/Nothing@1", "start": "soon"},
            ],
        ),
    ),
    (
        "plans without the package",
        lambda documents: documents[MANIFEST].update(
            plans=[{"type": "order", "version": 1, "steps": [{"type": "SHIP"}]}]
        ),
    ),
    (
        "plans",
        lambda documents: documents[MANIFEST].update(
            uses=["aos/linear@1"],
            plans=[
                "x",
                {"type": "order", "version": 1, "steps": []},
                {"type": "order", "version": 1, "steps": [{"type": f"S{n}"} for n in range(257)]},
                {"type": "a/b", "version": 0, "wait_timeouts": 1, "steps": [{"type": ""}, 7]},
                {
                    "type": "order",
                    "version": 2,
                    "retries": 3,
                    "steps": [
                        {"type": "SHIP", "max_attempts": 0},
                        {"type": "SHIP", "backoff_ms": -1, "lease_ms": 31_536_000_000},
                        {"type": "SHIP", "lease": 30},
                    ],
                },
            ],
        ),
    ),
    (
        "a version of a plan twice",
        lambda documents: documents[MANIFEST].update(
            uses=["aos/linear@1"],
            plans=[
                {"type": "order", "version": 1, "steps": [{"type": step}]} for step in ("A", "B")
            ],
        ),
    ),
    (
        "fields of the manifest that are empty",
        lambda documents: documents[MANIFEST].update(secrets=[], plans=[], schedules=[]),
    ),
    (
        "a secret",
        add(SCHEMAS, {"$kind": "defsecret", "name": "acme/key@1", "binding_id": "env:KEY"}),
    ),
    (
        "choices that are the default anyway",
        lambda documents: (
            node(documents, ORDER).update(upgrade="quiesce", lifecycle="quiescent"),
            node(documents, CHARGE).update(delivery="at_least_once", idempotency_scope="world"),
            node(documents, MODULE).update(abi="aos/1"),
        )[0],
    ),
]


TABLE = [*STRUCTURE, *REFERENCES, *TYPES, *ROUTING, *EXECUTORS, *LATER]

GOLDEN = Path(__file__).parent / "problems.txt"


def told(documents: Documents) -> list[str]:
    """Every line that loading refuses these documents with; none when it does not."""
    try:
        loaded(documents)
    except ManifestProblems as refused:
        return lines(refused.problems)
    return []


def golden() -> dict[str, list[str]]:
    """label -> lines. A block begins with ``# label``; a change that is fine has ``fine``."""
    blocks: dict[str, list[str]] = {}
    for block in GOLDEN.read_text("utf-8").split("\n\n"):
        label, *block_lines = block.strip().split("\n")
        blocks[label.removeprefix("# ")] = [] if block_lines == ["fine"] else block_lines
    return blocks


def test_each_change_is_told_as_written() -> None:
    """M-1 to M-39."""
    found = {}
    for label, change in TABLE:
        documents = good()
        change(documents)
        found[label] = told(documents)
    assert len(found) == len(TABLE)
    if os.environ.get("REWRITE"):
        blocks = ["\n".join([f"# {label}", *(told_ or ["fine"])]) for label, told_ in found.items()]
        GOLDEN.write_text("\n\n".join(blocks) + "\n", "utf-8")

    assert found == golden()


def test_all_problems_are_told_at_once() -> None:
    """M-4. Independent changes: each line of each is there, and no other."""
    changes = dict(TABLE)
    chosen = [
        "a misspelt field",
        "a misspelt schema",
        "a map with another key type",
        "a key of another type",
        "a key of small order",
        "a missing artifact",
        "waits that shrink",
    ]
    documents = good()
    for label in chosen:
        changes[label](documents)

    assert sorted(told(documents)) == sorted(line for label in chosen for line in golden()[label])


def test_a_refusal_has_every_line_and_ends_with_1() -> None:
    refusal = ManifestProblems(
        [
            Problem(file="a.json", pointer="/0/name", message="one"),
            Problem(file="b.json", pointer="", message="two", hint="mend it"),
        ]
    )

    assert str(refusal) == "a.json#/0/name: one\nb.json: two (mend it)"
    assert refusal.exit_code == 1

"""Migrations made with the SDK: states of an earlier version, and what a migration may not do
(SA-16 to SA-18)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from aos.author.assemblyscript import ASC_OPTIONS, generate
from aos.author.errors import BuildFailed
from aos.core.journal.faults import FaultKind
from aos.core.journal.ports import Ran
from aos.sandbox.inspect import check_module
from aos.testing import InputRefused, World
from aos.values.cbor import Value, decode_record, encode
from tests.cli.shell import here, run
from tests.memory_world import schema, workflow
from tests.modules.guests import ROOT
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast, guest_source

NAT: Final[dict[str, object]] = {"nat": {}}
TEXT: Final[dict[str, object]] = {"text": {}}
TIMER: Final = {"option": TEXT, "$comment": "pending sys/timer.set@1"}
OLD: Final = "demo/Count@1"
NEW: Final = "demo/Count@2"
ADD: Final = "demo/Add@1"
COUNTER: Final = "demo/counter@1"
MODULE: Final = "demo/counter.module@1"

Nodes = Sequence[Mapping[str, Any]]
Wasm = Mapping[str, bytes]

SHARED: Final = [
    schema(ADD, {"record": {"counter": TEXT, "by": NAT}}),
    schema("demo/Id@1", TEXT),
    schema("demo/Event@1", {"variant": {
        "Add": {"ref": ADD}, "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
    }}),
    schema(OLD, {"record": {"total": NAT, "timer": TIMER}}),
]  # fmt: skip


def counter(state: str, **more: object) -> dict[str, object]:
    impl = {"module": MODULE, "entrypoint": "counter"}
    return workflow(
        COUNTER, state=state, event="demo/Event@1", effects=["sys/timer.set@1"],
        key_schema="demo/Id@1", context="sys/WorkflowContext@1", impl=impl, **more,
    )  # fmt: skip


BEFORE: Final = [*SHARED, counter(OLD)]
AFTER: Final = [
    *SHARED,
    schema(NEW, {"record": {"total": TEXT, "timer": TIMER}}),
    counter(NEW, migrate={"from": OLD, "entrypoint": "renew"}),
]
MORE: Final = [
    schema("aos/Log@1", {"record": {"lines": {"list": TEXT}}}),
    schema("demo/List@1", {"list": NAT}),
    schema("demo/List@2", {"map": {"key": TEXT, "value": NAT}}),
    workflow(
        "demo/list@1", state="demo/List@2", event=ADD, annotations="aos/Log@1",
        migrate={"from": "demo/List@1", "entrypoint": "renewList"},
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> Wasm:
    """The module of each version, by the name of its source."""
    return {
        name: compile_wasm(
            tmp_path_factory.mktemp(name), nodes, guest_source(f"{name}.ts"), options=fast()
        )[0]
        for name, nodes in (("before", BEFORE), ("migrating", [*AFTER, *MORE]))
    }


@pytest.fixture(scope="module")
def guest(wasm: Wasm) -> Iterator[Guest]:
    guest = Guest(wasm["migrating"])
    yield guest
    guest.close()


def asked(state: bytes, key: bytes | None = encode("a"), version: int = 1) -> bytes:
    """The input of a migration, as the kernel encodes it (K-77)."""
    fields: dict[str | int, Value] = {
        "version": version,
        "state": state,
        "from": {"schema": OLD, "hash": bytes(32)},
        "to": {"schema": NEW, "hash": bytes(32)},
    }
    if key is not None:
        fields["key"] = key
    return encode(fields)


def renewed(guest: Guest, total: int, timer: str | None = None) -> Ran:
    return guest.run("renew", asked(encode({"total": total, "timer": timer})))


def output(ran: Ran) -> Any:
    assert ran.output is not None, ran.fault
    return decode_record(ran.output)


def fault(ran: Ran) -> tuple[str, str]:
    found = output(ran)
    assert set(found) == {"fault"}
    return found["fault"]["kind"], found["fault"]["message"]


def test_the_new_state_is_what_the_author_makes_of_the_old(guest: Guest) -> None:
    """SA-16: the author also gets the key; the output has only a state; a handle is kept."""
    assert output(renewed(guest, 3, "aos:7:0")) == {
        "state": encode({"total": "a: 3", "timer": "aos:7:0"})
    }


def test_states_that_are_no_records_are_taken_over_and_cells_without_key(guest: Guest) -> None:
    ran = guest.run("renewList", asked(encode([7, 8]), key=None))

    assert output(ran) == {"state": encode({"0": 7, "1": 8})}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (asked(encode({"total": "3", "timer": None})), "state: expected nat at byte "),
        (asked(encode({"total": 3})), "state: a field is missing or unknown at byte "),
        (asked(encode({"total": 3, "timer": None}) + b"\x00"), "state: bytes follow the value"),
        (asked(b""), "state: cut short"),
        (asked(encode({"total": 3, "timer": None}), key=encode(1)), "key: expected text"),
        (asked(encode({"total": 3, "timer": None}), version=2), "input: this module reads migr"),
        (asked(encode({"total": 3, "timer": None})) + b"\x00", "input: bytes follow the value"),
        (encode({"version": 1}), "input: expected the field to"),
    ],
)
def test_an_unreadable_input_is_a_fault_and_the_author_is_not_called(
    guest: Guest, given: bytes, message: str
) -> None:
    """SA-17"""
    kind, said = fault(guest.run("renew", given))

    assert kind == "sdk_input"
    assert said.startswith(message)


NO_CONTEXT: Final = (
    "sdk_no_context",
    "a migration has no context: no time, no chance, no new handles",
)
NOTHING_BESIDE: Final = ("sdk_migration", "a migration makes a state and nothing beside it")


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (20, ("empty", "there is nothing to take over")),
        (22, NO_CONTEXT),
        (23, NO_CONTEXT),
        (24, NOTHING_BESIDE),
        (25, NOTHING_BESIDE),
        (26, NOTHING_BESIDE),
        (27, NOTHING_BESIDE),
        (28, ("sdk_value", "text: half of a surrogate pair")),
    ],
)
def test_a_fault_of_the_author_is_one_of_the_migration(
    guest: Guest, total: int, expected: tuple[str, str]
) -> None:
    """SA-17, SA-18"""
    assert fault(renewed(guest, total)) == expected


def test_a_failed_assertion_says_where(guest: Guest) -> None:
    found = renewed(guest, 21).fault

    assert found is not None
    assert found.kind is FaultKind.TRAP
    assert found.message.startswith("renew: panicked: assembly/index.ts:")
    assert found.message.endswith(": it is too much")


def test_it_is_whole_when_it_is_built_small(tmp_path: Path) -> None:
    source = guest_source("migrating.ts")
    wasm, _ = compile_wasm(tmp_path, [*AFTER, *MORE], source, options=ASC_OPTIONS)
    assert check_module(wasm, ["counter", "renew", "list", "renewList"]) == []
    guest = Guest(wasm)

    assert output(renewed(guest, 3)) == {"state": encode({"total": "a: 3", "timer": None})}
    assert fault(renewed(guest, 20))[0] == "empty"
    guest.close()


def test_the_example_of_the_readme_is_what_the_kernel_takes(tmp_path: Path) -> None:
    readme = (ROOT / "modules/sdk-assemblyscript/README.md").read_text("utf-8")
    parts = readme.split("## Migrating stored states")
    air, source = (
        [re.findall(f"```{language}\n(.*?)```", part, re.DOTALL)[0] for part in parts]
        for language in ("json", "ts")
    )
    nodes = {each["name"]: each for text in air for each in json.loads(text)}
    wasm, _ = compile_wasm(tmp_path, list(nodes.values()), "\n".join(source), options=fast())
    assert check_module(wasm, ["counter", "renew"]) == []
    guest = Guest(wasm)

    taken = guest.run("renew", asked(encode({"count": 3})))
    refused = guest.run("renew", asked(encode({"count": 3}), key=encode("k" * 101)))

    guest.close()
    assert output(taken) == {"state": encode({"count": 3, "label": "a"})}
    assert fault(refused) == ("key", "it is too long for a label")


# In a world


def manifest(nodes: Nodes, *, path: str | None = None) -> list[dict[str, Any]]:
    """The nodes with their module and a manifest of all of them."""
    artifact: dict[str, object] = {"kind": "wasm_module"}
    if path is not None:
        artifact["path"] = path
    own = [
        *map(dict, nodes),
        {"$kind": "defmodule", "name": MODULE, "runtime": {"kind": "wasm", "artifact": artifact}},
    ]
    sections = {"schemas": "defschema", "modules": "defmodule", "workflows": "defworkflow"}
    listed = {
        section: [{"name": each["name"]} for each in own if each["$kind"] == kind]
        for section, kind in sections.items()
    }
    routes = [{"event": ADD, "workflow": COUNTER, "key_field": "counter"}]
    return [
        *own,
        {
            "$kind": "manifest", "air_version": "2", **listed,
            "effects": [{"name": "sys/timer.set@1"}], "routing": {"subscriptions": routes},
        },
    ]  # fmt: skip


def test_open_work_continues_with_the_new_state(wasm: Wasm) -> None:
    with World(manifest(BEFORE), modules={MODULE: wasm["before"]}) as world:
        world.send(ADD, {"counter": "rests", "by": 3})
        world.send(ADD, {"counter": "waits", "by": 5})
        world.run()

        world.apply(manifest(AFTER), modules={MODULE: wasm["migrating"]}, mode="migrate")
        world.send(ADD, {"counter": "rests", "by": 4})
        world.advance("1s")

        assert world.state(COUNTER, "rests") == {"total": "rests: 3 + 4", "timer": None}
        assert world.state(COUNTER, "waits") == {"total": "waits: 5, timed", "timer": None}


@pytest.mark.parametrize(
    ("total", "detail"),
    [
        (20, "empty: there is nothing to take over"),
        (21, "it is too much"),
        (24, "a migration makes a state and nothing beside it"),
    ],
)
def test_one_state_that_cannot_be_taken_over_refuses_them_all(
    wasm: Wasm, total: int, detail: str
) -> None:
    with World(manifest(BEFORE), modules={MODULE: wasm["before"]}) as world:
        world.send(ADD, {"counter": "good", "by": 3})
        world.send(ADD, {"counter": "bad", "by": total})
        world.run()

        with pytest.raises(InputRefused) as refused:
            world.apply(manifest(AFTER), modules={MODULE: wasm["migrating"]}, mode="migrate")

        [blocker] = refused.value.blockers
        assert blocker.kind == "migration_failed"
        assert (blocker.workflow, blocker.key) == (COUNTER, "bad")
        assert detail in blocker.detail
        assert world.state(COUNTER, "good") == {"total": 3, "timer": None}


def test_aos_apply_takes_the_states_over(wasm: Wasm, tmp_path: Path) -> None:
    """SA-16, through the command line, on disk; replay makes the same of them."""
    world = tmp_path / "world"

    def aos(*words: str | Path) -> Any:
        # Signals are handled on a main thread alone, and this test has another one.
        found = (run if words[0] == "run" else here)(*words, "--world", world)
        assert found.code == 0, found.out + found.err
        return found

    def put(name: str, nodes: Nodes, module: bytes) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.air.json").write_text(json.dumps(manifest(nodes, path="counter.wasm")))
        (folder / "counter.wasm").write_bytes(module)
        return folder

    assert here("init", world).code == 0
    aos("apply", put("before", BEFORE, wasm["before"]))
    aos("send", ADD, '{"counter": "a", "by": 3}')
    aos("run", "--until-idle")

    aos("apply", put("after", AFTER, wasm["migrating"]), "--mode", "migrate")
    aos("send", ADD, '{"counter": "a", "by": 4}')
    aos("run", "--until-idle")

    found = aos("inspect", "cell", COUNTER, '"a"', "--json")
    assert found.json["state"] == {"total": "a: 3 + 4", "timer": None}
    aos("replay")


# The generator


def test_a_workflow_without_a_migration_has_no_class_for_it() -> None:
    assert "Migration" not in generate(BEFORE)
    assert "export abstract class CounterMigration extends aos.Migration {" in generate(AFTER)


def test_an_old_schema_that_is_gone_is_told_with_what_to_keep() -> None:
    gone = [each for each in AFTER if each["name"] != OLD]

    with pytest.raises(BuildFailed) as refused:
        generate(gone)

    assert str(refused.value) == (
        f"{COUNTER}: the migration is from {OLD}, which is not defined (keep that schema in air/ "
        "as it was, and give the new state another name)"
    )


def test_a_schema_that_has_the_classs_name_is_refused() -> None:
    taken = schema("demo/CounterMigration@1", {"record": {"a": NAT}})

    with pytest.raises(BuildFailed, match="two definitions need the class name CounterMigration"):
        generate([*AFTER, taken])

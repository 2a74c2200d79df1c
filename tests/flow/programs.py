"""Random programs for modules/conformance/flow, and a world that compares one with its model."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from aos.core.journal.records import CellId
from aos.manifest.load import Loaded
from aos.testing.sources import loaded
from aos.testing.world import World
from tests.flow.comparison import RUN, SCHEMAS, Comparison
from tests.flow.model import SECOND, TIME_MAX, Flow, Node
from tests.flow.probe import deliver
from tests.modules.guests import MODULES
from tests.sdk.rust.examples import with_manifest

FOLDER: Final = "conformance/flow/flow-programs"
MODULE: Final = "f/flow-programs.module@1"
KEY: Final = "a"
LIVE: Final = ("running", "sleeping", "rolling_back")
CHILDREN: Final = ("x", "y")
SPANS: Final = (0, SECOND, 10 * SECOND, 100 * SECOND)

LEAVES: Final = (
    "step", "step", "step", "step", "local", "emit", "sleep", "sleep_until", "listen",
    "listen_either", "listen_n", "listen_with_timeout", "listen_until", "listen_n_with_timeout",
    "listen_n_until", "fail", "checkpoint", "rollback_to", "commit", "version", "removed",
)  # fmt: skip
WITH_BODY: Final = ("join", "join", "race", "race", "scope", "loop", "call", "spawn")
STEP_FLAGS: Final = ("rollback", "rollback_unknown", "retry_timeouts")
NAMES: Final = ("", "", "", "/", "%", ":#", "é")


# Half of them shrink; the others are more different from one another.
chances: Final = st.booleans().flatmap(lambda is_seeded: st.randoms(use_true_random=is_seeded))


@st.composite
def programs(draw: st.DrawFn, /, **choices: Any) -> dict[str, Any]:
    """A program of up to about twenty nodes."""
    return program_of(draw(chances), **choices)


def program_of(
    chance: Random,
    *,
    key: str = KEY,
    mark: str = "",
    leaves: tuple[str, ...] = LEAVES,
    with_body: tuple[str, ...] = WITH_BODY,
) -> dict[str, Any]:
    """A program of up to about twenty nodes. The names of its nodes begin with ``mark``."""
    nodes: list[Node] = []
    left = chance.randint(1, 20)

    def number(most: int) -> int:
        return chance.randint(0, most)

    one_of = chance.choice

    def flags(choices: tuple[str, ...]) -> list[str]:
        return [each for each in choices if number(1)]

    def node(op: str, **fields: Any) -> int:
        place = len(nodes)
        tilde = "~" if number(15) == 15 else ""
        nodes.append(
            {
                "op": op, "name": f"{tilde}{mark}{op[0]}{place}{one_of(NAMES)}", "number": 1,
                "span": 0, "limit": None, "text": "", "flags": [], "every": 1, "keep": 0,
                "nodes": [],
            } | fields
        )  # fmt: skip
        return place

    def body(depth: int, marks: tuple[str, ...], size: int) -> list[int]:
        found = []
        for _ in range(size):
            made, marks = operation(depth, marks)
            found.append(made)
        return found

    def operation(depth: int, marks: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        nonlocal left
        left -= 1
        has_body = left > 0 and depth < 3 and number(2) == 2
        op = one_of(with_body if has_body else leaves)
        caught = ["catch"] if number(2) == 2 else []
        fields: Node
        if op == "step":
            fields = {
                "number": one_of((1, 1, 2, 3, 3, 0) if number(9) == 9 else (1, 1, 2, 3)),
                "span": one_of(SPANS),
                "limit": one_of((None, None, None, SECOND, 15 * SECOND)),
                "flags": flags(STEP_FLAGS),
            }
        elif op in ("join", "race"):
            fields = {"number": one_of((1, 2, 9, 9, 9, 9))}
            fields["flags"] = flags(("rollback_losers",)) if op == "race" else []
        elif op == "loop":
            fields = {"number": 1 + number(2), "every": one_of((1, 1, 2, 3)), "keep": number(2)}
        elif op in ("call", "spawn"):
            fields = {"text": one_of(CHILDREN)}
            fields["flags"] = flags(("rollback",)) if op == "call" else []
        elif op == "fail":
            fields = {"text": one_of(("no", "never")), "flags": flags(("rollback",))}
        elif op == "rollback_to":
            fields = {"text": one_of((*marks, *marks, "nowhere"))}
        elif op in ("sleep", "listen_with_timeout", "listen_n_with_timeout"):
            fields = {"number": 1 + number(2), "span": one_of((*SPANS, *SPANS, -1, TIME_MAX))}
        else:
            fields = {"number": 1 + number(2), "span": one_of((*SPANS, -SECOND))}
        fields["flags"] = sorted([*fields.get("flags", []), *caught])
        made = node(op, **fields)
        if op == "checkpoint":
            marks = (*marks, nodes[made]["name"])
        if op in ("join", "race"):
            parts = []
            for _ in range(2 + number(1)):
                part = node("branch")
                nodes[part]["nodes"] = body(depth + 1, marks, 1 + number(2))
                parts.append(part)
            nodes[made]["nodes"] = parts
        elif op in WITH_BODY:
            inner = () if op in ("call", "spawn") else marks
            nodes[made]["nodes"] = body(depth + 1, inner, 1 + number(2))
        return made, marks

    top = body(0, (), 1 + number(5))
    if number(7) == 7:
        top.insert(number(len(top)), node("return"))
    return {"id": key, "nodes": nodes, "body": top}


ACTIONS: Final = (
    "ok", "ok", "ok", "ok", "error", "retryable", "exception", "rollback", "timeout", "cancel",
    "unknown_outcome", "reject", "note", "note", "bell", "time", "time", "time", "Cancel", "Skip",
    "Resume",
)  # fmt: skip
Action = tuple[str, int, bool, bool]
"""What, which of those that there are, whether the world then runs, whether it then crashes."""


@st.composite
def schedules(draw: st.DrawFn) -> list[Action]:
    """Up to forty actions."""
    chance = draw(chances)
    return [
        (
            chance.choice(ACTIONS),
            chance.randint(0, 5),
            chance.random() < 3 / 4,
            chance.random() < 1 / 2,
        )
        for _ in range(chance.randint(0, 40))
    ]


def manifest_nodes(entrypoint: str = "run", *, upgrade: str = "quiesce") -> list[Any]:
    """The nodes of the manifest, with the version of the code that this entrypoint has."""
    nodes: list[dict[str, Any]] = json.loads((MODULES / f"{FOLDER}.nodes.json").read_text())
    for node in nodes:
        if node["$kind"] == "defworkflow" and node["name"] == RUN:
            node["impl"]["entrypoint"] = entrypoint
            node["upgrade"] = upgrade
    return list(with_manifest(nodes, "flow-programs.wasm"))


@cache
def manifest(entrypoint: str = "run", *, upgrade: str = "quiesce") -> Loaded:
    wasm = (MODULES / f"{FOLDER}.wasm").read_bytes()
    return loaded(manifest_nodes(entrypoint, upgrade=upgrade), {MODULE: wasm}, abi=None)


class Modelled:
    """A world with one program and its children, and the model of each cell."""

    def __init__(
        self, code: Loaded | None = None, *, crashes: bool = True, compares: bool = True
    ) -> None:
        self.world = World(code or manifest(), replay=False)
        self.desk = self.world._desk
        self.crashes = crashes
        self.compares = compares
        self.comparison = Comparison(self.desk.read)
        self.begun: list[dict[str, Any]] = []
        self.seen = 0
        self.texts = 0

    # The world.

    def begin(self, program: dict[str, Any]) -> None:
        self.begun.append(program)
        self.world.send("f/Run@1", program)

    def act(self, action: Action) -> None:
        what, which, runs, crashes = action
        match what:
            case "note" | "bell":
                self.send(f"f/{what.title()}@1", self.key(which))
            case "time":
                self.pass_time(to_the_next=which > 0)
            case "Cancel":
                self.control("Cancel", {"rollback": which != 1}, which)
            case "Resume" | "Skip":
                self.control("Resume", {"skip": what == "Skip"}, which)
            case _:
                self.settle(what, which)
        if crashes and self.crashes:
            self.crash()
        if runs:
            self.go_on()
        if crashes and self.crashes:
            self.crash()

    @property
    def flows(self) -> dict[CellId, Flow]:
        """The model of each flow that has begun."""
        return self.comparison.flows

    @property
    def flow(self) -> Flow:
        """The model of the program that was begun first."""
        return next(iter(self.flows.values()))

    @property
    def status(self) -> str:
        status: str = self.world.state(RUN, KEY)["status"]
        return status

    def crash(self) -> None:
        before = self.world.cells()
        self.world.restart()
        assert self.world.cells() == before

    def settle(self, what: str, which: int) -> None:
        open_ones = self.world.effects()
        if not open_ones:
            return
        effect = open_ones[which % len(open_ones)]
        match what:
            case "ok":
                effect.answer({"note": effect.params["what"]})
            case "error":
                effect.fail("broken", "it is broken")
            case "retryable":
                effect.fail("busy", "come again", retryable=True)
            case "exception" | "rollback" | "unknown_outcome":
                effect.fail(what, "it is so")
            case "timeout":
                effect.timeout()
            case "cancel":
                effect.cancel()
            case "reject":
                effect.answer_badly()

    def key(self, which: int) -> str:
        cells = [cell.key for cell in self.world.cells()]
        return cells[which % len(cells)] if cells else KEY

    def send(self, schema: str, key: str) -> None:
        self.texts += 1
        deliver(self.world, schema, {"id": key, "text": f"m{self.texts}"})

    def pass_time(self, *, to_the_next: bool) -> None:
        self.go_on()
        due = [each.due_ns for each in self.world.timers() if each.due_ns is not None]
        if due and to_the_next:
            self.world.advance_to(max(min(due), self.world.now_ns))
        else:
            self.world.advance(SECOND // 2)
        self.compare()

    def control(self, arm: str, value: object, which: int) -> None:
        cells = self.world.cells()
        if cells:
            cell = cells[which % len(cells)]
            schema = f"{SCHEMAS[cell.workflow]}Control@1"
            command = {"$tag": arm, "$value": value}
            deliver(self.world, schema, {"instance": cell.key, "command": command})

    def go_on(self) -> None:
        self.world.run()
        self.compare()

    def finish(self) -> None:
        """Answer and send whatever is waited for, until every flow has ended."""
        for turn in range(400):
            self.go_on()
            stuck = [id for id, status in self.statuses().items() if status == "stuck"]
            if self.world.effects():
                self.settle("ok", 0)
            elif stuck:
                for workflow, key in stuck:
                    command = {"$tag": "Resume", "$value": {"skip": False}}
                    value = {"instance": key, "command": command}
                    self.world.send(f"{SCHEMAS[workflow]}Control@1", value)
            elif self.world.timers():
                self.pass_time(to_the_next=True)
            else:
                open_flows = [key for (_, key), each in self.statuses().items() if each in LIVE]
                if not open_flows:
                    return
                for key in open_flows:
                    self.send(("f/Note@1", "f/Bell@1")[turn % 2], key)
        raise AssertionError("the programs do not end")

    def statuses(self) -> dict[tuple[str, str], str]:
        """The status of each flow, by workflow and key."""
        return {(each.workflow, each.key): each.state["status"] for each in self.world.cells()}

    def compare(self) -> None:
        """Give each new turn to the model, and compare."""
        if not self.compares:
            return
        self.comparison.follow(self.desk.records[self.seen :])
        self.seen = len(self.desk.records)
        self.comparison.compare_states()

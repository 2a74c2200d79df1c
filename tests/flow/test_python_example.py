"""One source file in the interpreter, under CPython and through the reader (spec/pyflow.md,
spec/python-flows.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aos.flow import Critical
from aos.flow.local import LocalFlow
from aos.testing.world import World
from tests.author.fakes import ROOT
from tests.flow.python_flow import PythonProbe, world_of

PAGE = (ROOT / "spec" / "python-flows.md").read_text("utf-8")
EXAMPLE = PAGE.split("```python\n")[1].split("```")[0]
ORDER = {"order_id": "o-1", "cents": 1_250}

EVERY_NAME = '''
"""A file that uses every argument of the decorators, and every name of aos.flow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import (
    TYPE_CHECKING, Annotated, Any, Callable, ClassVar, Final, Generic, Literal, NoReturn,
    Optional, Protocol, Self, TypeVar, Union,
)

from aos.flow import (
    Break, Canceled, Continue, Critical, Cx, Exhausted, FlowError, JoinFailed, Local, Nat,
    RaceFailed, Retry, Rollback, Timeout, by, effect, flow, other_flow, schema,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

LIMIT: Final = 3


@schema("t/Line@1", frozen=True)
class Line:
    cents: Annotated[int, Nat] = 0


@schema("t/Go@1")
class Go:
    id: str
    lines: list[Line] = field(default_factory=list)
    kind: Literal["a", "b"] = "a"
    price: Decimal | None = None
    pause: timedelta = timedelta(seconds=1)

    def total(self) -> int:
        return sum(line.cents for line in self.lines)


@schema("t/Halt@1")
class Halt:
    id: str


@schema("t/Extend@1")
class Extend:
    order: Go
    reason: "str | None"


@schema("t/Shown@1")
class Shown:
    total: int


@schema("t/Done@1")
class Done:
    note: str


@effect(
    "t/do@1", executor="t", params="t/DoIt@1", frozen=True, timeout_ms=5000,
    delivery="at_most_once", idempotency_scope="cell",
)
class Do:
    what: str
    receipt: ClassVar[type[Done]]


@dataclass
class Summary:
    texts: list[str]


@flow(
    "t/all@1", key="id", listens=[Halt, by(Extend, "order.id")], view=Shown, upgrade="in_place",
    calls=[], callable=True, annotations=Shown,
)
async def run(cx: Cx, go: Go) -> str:
    from aos.flow import Retry as Again

    texts: list[str] = []
    cx.publish(Shown(go.total()))
    cx.annotate(Shown(7))
    cx.log("it begins")
    try:
        done: Done = await cx.step("do", Do(go.kind), retry=Again(1, "1s", most=go.pause))
        texts.append(done.note)
    except (Exhausted, Timeout, Canceled, JoinFailed, RaceFailed, Rollback) as error:
        texts.append(error.kind)
    except Critical as error:
        texts.append(str(error))
    match await cx.listen("messages", [Halt, Extend], timeout=go.pause):
        case Halt():
            texts.append("halt")
        case Extend(reason=reason):
            texts.append(f"extended {reason}")
        case None:
            texts.append("none")

    async def body(cx: Cx, number: int) -> Any:
        return Break(number) if number == LIMIT else Continue(number + 1)

    texts.append(str(await cx.loop("count", 0, body)))

    def later(local: Local) -> bool:
        return local.now > datetime.fromisoformat("2020-01-01T00:00:00+00:00")

    texts.append(str(await cx.local("later", later)))
    return " ".join(Summary(texts).texts)
'''


@pytest.fixture
def under_cpython(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Runs a source file, and returns its names."""

    def run(source: str) -> dict[str, Any]:
        module = ModuleType("written_flow")
        monkeypatch.setitem(sys.modules, "written_flow", module)  # dataclasses look there
        exec(compile(source, "flow.py", "exec"), module.__dict__)
        return module.__dict__

    return run


def output_of(world: World, name: str, key: str) -> Any:
    flow = world.flow(name, key)
    assert flow is not None
    assert flow.status == "completed", (flow, world.faults())
    return flow.output


@pytest.mark.parametrize("end", ["charge", "canceled", "late"])
def test_the_example_of_the_page_runs_in_the_module_as_under_cpython(
    end: str, under_cpython: Callable[[str], dict[str, Any]]
) -> None:
    """PY-14, PF-40"""
    names = under_cpython(EXAMPLE)
    answers = {names["Charge"]: names["Receipt"]("r-1")} if end == "charge" else {}
    local = LocalFlow(names["order"], names["Order"](**ORDER), answers)
    with world_of(EXAMPLE) as world:
        if end == "charge":
            world.on("shop/charge@1", {"id": "r-1"})
        world.send("shop/Order@1", ORDER)
        world.run()
        if end == "canceled":
            world.send("shop/Canceled@1", {"order_id": "o-1"})
            world.run()
            local.send(names["Canceled"]("o-1"))
        elif end == "late":
            world.advance("3d")
            local.advance("3d")

        assert output_of(world, "shop/order@1", "o-1") == local.output
        assert local.output == {"charge": "r-1"}.get(end, end)


def test_every_name_and_argument_of_a_flow_is_there_in_the_module(
    under_cpython: Callable[[str], dict[str, Any]],
) -> None:
    """PY-14, PF-5 to PF-23"""
    names = under_cpython(EVERY_NAME)
    lines = [names["Line"](cents) for cents in (1, 2)]
    local = LocalFlow(
        names["run"], names["Go"]("a", lines), {names["Do"]: lambda do: names["Done"](do.what)}
    )
    go = {"id": "a", "lines": [{"cents": 1}, {"cents": 2}], "kind": "a", "price": None}
    go["pause"] = "1s"
    with world_of(EVERY_NAME) as world:
        world.on("t/do@1", lambda params: {"note": params["what"]})
        world.send("t/Go@1", go)
        world.run()
        world.send("t/Extend@1", {"order": {**go, "price": "1.50"}, "reason": "late"})
        world.run()
        local.send(names["Extend"](names["Go"]("a", lines), "late"))
        flow = world.flow("t/all@1", "a")

        assert output_of(world, "t/all@1", "a") == local.output == "a extended late 3 True"
        assert flow is not None
        assert flow.view == {"total": 3}
        assert local.view == names["Shown"](3)
        assert world.annotations("t/all@1", "a") == [{"total": 7}]
        assert local.annotations == [names["Shown"](7)]


CALLER = """
from __future__ import annotations

from typing import ClassVar

from aos.flow import Cx, FlowError, effect, flow, other_flow, schema


@schema("t/Trip@1")
class Trip:
    id: str
    cents: int


@schema("t/Order@1")
class Order:
    order_id: str
    cents: int


@schema("t/Receipt@1")
class Receipt:
    id: str


ORDER = other_flow("t/order@1", input=Order, output=Receipt, key="order_id")


@flow("t/trip@1", key="id", calls=[ORDER])
async def trip(cx: Cx, wanted: Trip) -> str:
    try:
        receipt = await cx.call("order", ORDER, Order(f"{wanted.id}-1", wanted.cents))
    except FlowError as error:
        return f"{error.kind} {error} {error.causes}"
    await cx.spawn("another", ORDER, Order(f"{wanted.id}-2", 1))
    return receipt.id
"""

CALLED = """
from __future__ import annotations

from aos.flow import Critical, Cx, flow, schema


@schema("t/Order@1")
class Order:
    order_id: str
    cents: int


@schema("t/Receipt@1")
class Receipt:
    id: str


@flow("t/order@1", key="order_id", callable=True)
async def order(cx: Cx, placed: Order) -> Receipt:
    await cx.sleep("nap", "1h")
    if placed.cents < 0:
        raise Critical("cents", "less than nothing")
    return Receipt(placed.order_id)
"""


@pytest.mark.parametrize("cents", [100, -1])
def test_a_flow_in_python_calls_and_spawns_flows_in_python(
    cents: int, under_cpython: Callable[[str], dict[str, Any]]
) -> None:
    """PY-48, PF-27, PF-48"""
    names = under_cpython(CALLER)
    failure = Critical("cents", "less than nothing")
    answer = names["Receipt"]("a-1") if cents > 0 else failure
    local = LocalFlow(names["trip"], names["Trip"]("a", cents), {names["ORDER"]: answer})
    with world_of(CALLER, CALLED) as world:
        world.send("t/Trip@1", {"id": "a", "cents": cents})
        world.finish()

        if cents > 0:
            assert output_of(world, "t/trip@1", "a") == local.output == "a-1"
            assert output_of(world, "t/order@1", "a-2") == {"id": "a-2"}
        else:
            error = "critical cents: less than nothing (order)"
            assert output_of(world, "t/trip@1", "a").startswith(f"{error} (")
            assert local.output.startswith(f"{error} (")
    called = [(flow.path, flow.name, flow.is_called) for flow in local.flows]
    assert called == [
        ("order", "t/order@1", True),
        *([("another", "t/order@1", False)] if cents > 0 else []),
    ]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("imports-a-name", "ImportError: cannot import name 'Workflow' from 'aos.flow'"),
        ("imports-a-module", "ModuleNotFoundError: No module named 'aos.flow.declaring'"),
        ("imports-a-package", "ModuleNotFoundError: No module named 'aos.host'"),
    ],
)
def test_an_unknown_name_of_aos_is_an_import_error(program: str, problem: str) -> None:
    """PY-14"""
    with PythonProbe(program) as probe:
        probe.begin(may_fail=True)

        assert problem in probe.fault[1]

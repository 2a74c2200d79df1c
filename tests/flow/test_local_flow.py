"""Flows in Python under CPython: PF-40 to PF-47, and the shapes of durable functions."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aos.flow import (
    Break,
    Continue,
    Critical,
    Cx,
    Exhausted,
    FlowError,
    JoinFailed,
    RaceFailed,
    Retry,
    Rollback,
    Timeout,
    effect,
    flow,
    other_flow,
    schema,
)
from aos.flow.local import (
    ErrorAnswer,
    LateAnswer,
    LocalFault,
    LocalFlow,
    StartedFlow,
    TimeoutAnswer,
)

ROOT = Path(__file__).parents[2]


@schema("shop/Order@1")
class Order:
    id: str


@schema("shop/Done@1")
class Done:
    id: str


@schema("shop/Note@1")
class Note:
    text: str


@effect("shop/work@1", executor="shop")
class Work:
    id: str
    receipt: ClassVar[type[Done]]


@effect("shop/undo@1", executor="shop")
class Undo:
    id: str
    receipt: ClassVar[type[Done]]


SHIP = other_flow("shop/ship@1", input=Order, output=Done, key="id")
BILL = other_flow("shop/bill@1", input=Order, key="id")

Function = Callable[[Cx, Order], Awaitable[Any]]


def run(function: Function, *, work: Any = None, undo: Any = None) -> LocalFlow:
    answers = {Work: work or (lambda asked: Done(asked.id)), Undo: undo or Done("undone")}
    return LocalFlow(flow("shop/order@1", key="id", listens=[Note])(function), Order("o"), answers)


def requested(flow_run: LocalFlow) -> list[str]:
    return [request.path for request in flow_run.requests]


def undone(flow_run: LocalFlow) -> list[str]:
    return [request.effect.id for request in flow_run.requests if request.path.endswith("/~undo")]


async def step(cx: Cx, name: str, **options: Any) -> Done:
    done: Done = await cx.step(name, Work(name), rollback=lambda done: Undo(done.id), **options)
    return done


def failing(*names: str, code: str = "no", retryable: bool = False) -> Callable[[Work], Any]:
    def answer(asked: Work) -> Any:
        return ErrorAnswer(code, "not now", retryable) if asked.id in names else Done(asked.id)

    return answer


def test_steps_run_once_although_the_function_runs_in_each_turn() -> None:
    """PF-41."""
    turns = []

    async def function(cx: Cx, order: Order) -> str:
        turns.append(order.id)
        first = await cx.step("a", Work("1"))
        second = await cx.step("b", Work("2"))
        return first.id + second.id

    flow_run = run(function)

    assert (flow_run.status, flow_run.output) == ("completed", "12")
    assert requested(flow_run) == ["a", "b"]
    assert turns == ["o", "o", "o"]


def test_a_step_retries_with_pauses_that_double_and_then_is_exhausted() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await cx.step("a", Work("a"), retry=Retry(4, "1s", "3s"))

    flow_run = run(function, work=ErrorAnswer("busy", "later", retryable=True))
    start_ns = flow_run.now_ns
    flow_run.finish()

    assert [(request.at_ns - start_ns) // 10**9 for request in flow_run.requests] == [0, 1, 3, 6]
    assert flow_run.status == "failed"
    assert isinstance(flow_run.error, Exhausted)
    assert (flow_run.error.code, flow_run.error.message, flow_run.error.path) == (
        "busy", "later", "a",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "kind", "attempts"),
    [
        (ErrorAnswer("no"), "critical", 1),
        (ErrorAnswer("exception"), "exhausted", 3),
        (ErrorAnswer("rollback"), "rollback", 1),
        (TimeoutAnswer(), "timeout", 1),
    ],
)
def test_the_answer_decides_about_the_kind_of_the_failure(
    answer: Any, kind: str, attempts: int
) -> None:
    async def function(cx: Cx, order: Order) -> str:
        try:
            await cx.step("a", Work("a"))
        except FlowError as error:
            return error.kind
        return "none"

    flow_run = run(function, work=answer)
    flow_run.finish()

    assert (flow_run.output, len(flow_run.requests)) == (kind, attempts)


def test_timeouts_are_retried_if_the_step_says_so() -> None:
    answers = iter([TimeoutAnswer(), Done("x")])

    async def function(cx: Cx, order: Order) -> str:
        return (await cx.step("a", Work("a"), retry_timeouts=True)).id

    flow_run = run(function, work=lambda _: next(answers))
    flow_run.finish()

    assert flow_run.output == "x"


def test_a_step_ends_at_its_timeout_and_its_unknown_effect_is_undone() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await cx.step("a", Work("a"), timeout="5s", rollback_unknown=Undo("unknown"))

    flow_run = run(function, work=LateAnswer("10s", Done("late")))
    flow_run.advance("5s")

    assert isinstance(flow_run.error, Timeout)
    assert flow_run.status == "failed"
    assert undone(flow_run) == ["unknown"]
    flow_run.finish()
    assert len(flow_run.requests) == 2


def test_compensations_run_newest_first_and_one_at_a_time() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "a")
        await step(cx, "b")
        await step(cx, "c")

    flow_run = run(function, work=failing("c"), undo=LateAnswer("1s", Done("x")))

    assert (flow_run.status, undone(flow_run)) == ("rolling_back", ["b"])
    flow_run.advance("1s")
    assert undone(flow_run) == ["b", "a"]
    flow_run.finish()
    assert flow_run.status == "failed"
    assert flow_run.requests[-1].path == "a/~undo"


def test_a_compensation_that_fails_five_times_is_stuck_until_it_is_resumed() -> None:
    answers = iter([*[ErrorAnswer("down")] * 5, Done("x")])

    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "a")
        raise Critical("no", "not today")

    flow_run = run(function, undo=lambda _: next(answers))
    start_ns = flow_run.now_ns
    flow_run.finish()

    assert flow_run.status == "stuck"
    assert (flow_run.now_ns - start_ns) // 10**9 == 1 + 2 + 4 + 8
    flow_run.resume()
    assert (flow_run.status, flow_run.requests[-1].attempt) == ("failed", 6)
    assert flow_run.error is not None
    assert flow_run.error.code == "no"


def test_a_stuck_compensation_can_be_skipped() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "a")
        raise Critical("no")

    flow_run = run(function, undo=ErrorAnswer("down"))
    flow_run.finish()
    flow_run.resume(skip=True)

    assert flow_run.status == "failed"


@pytest.mark.parametrize("rollback", [True, False])
def test_a_canceled_flow_is_rolled_back_unless_the_operator_says_no(rollback: bool) -> None:
    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "a")
        await cx.sleep("later", "1d")

    flow_run = run(function)
    flow_run.cancel(rollback=rollback)

    assert flow_run.status == "canceled"
    assert undone(flow_run) == (["a"] if rollback else [])


def test_a_join_waits_for_all_and_keeps_the_names() -> None:
    async def function(cx: Cx, order: Order) -> dict[str, Any]:
        return await cx.join(
            "both", user=lambda cx: step(cx, "user"), posts=lambda cx: step(cx, "posts")
        )

    flow_run = run(function)

    assert flow_run.output == {"user": Done("user"), "posts": Done("posts")}
    assert requested(flow_run) == ["both/user/user", "both/posts/posts"]


def test_a_failed_join_has_the_failures_of_its_branches_in_their_order() -> None:
    async def function(cx: Cx, order: Order) -> list[str]:
        branches: dict[str, Any] = {name: lambda cx, name=name: step(cx, name) for name in "abc"}
        try:
            await cx.join("all", **branches)
        except JoinFailed as error:
            return [f"{cause.kind} {cause.code} {cause.path}" for cause in error.causes]
        return []

    flow_run = run(function, work=failing("a", "c"))

    assert flow_run.output == ["critical no all/a/a", "critical no all/c/c"]


def test_at_most_n_branches_run_at_a_time() -> None:
    async def function(cx: Cx, order: Order) -> None:
        branches: dict[str, Any] = {name: lambda cx, name=name: step(cx, name) for name in "abc"}
        await cx.join("all", at_most=2, **branches)

    flow_run = run(function, work=lambda _: LateAnswer("1s", Done("x")))

    assert flow_run.open_paths == ["all/a/a", "all/b/b"]
    flow_run.finish()
    assert (flow_run.status, len(flow_run.requests)) == ("completed", 3)


def test_a_race_cancels_its_losers_and_gives_their_messages_back() -> None:
    async def loser(cx: Cx) -> None:
        await cx.listen("note", Note)
        await step(cx, "slow")

    async def function(cx: Cx, order: Order) -> tuple[str, Note]:
        winner, _ = await cx.race("first", work=loser, time=lambda cx: cx.sleep("wait", "5s"))
        return winner, await cx.listen("again", Note)

    flow_run = run(function, work=LateAnswer("10s", Done("late")))
    flow_run.send(Note("hello"))
    flow_run.advance("5s")

    assert flow_run.output == ("time", Note("hello"))
    assert flow_run.open_paths == []


def test_the_time_of_a_flow_ends_with_it() -> None:
    """PF-42: the timers of losers are canceled."""

    async def function(cx: Cx, order: Order) -> None:
        await cx.race("r", a=lambda cx: cx.sleep("a", "9d"), b=lambda cx: cx.sleep("b", "5s"))

    flow_run = run(function)
    start_ns = flow_run.now_ns
    flow_run.finish()

    assert (flow_run.status, flow_run.now_ns - start_ns) == ("completed", 5 * 10**9)


def test_a_race_whose_branches_all_fail_fails_and_one_failure_does_not_end_it() -> None:
    async def function(cx: Cx, order: Order) -> Any:
        try:
            await cx.race("r", a=lambda cx: step(cx, "a"), b=lambda cx: step(cx, "b"))
        except RaceFailed as error:
            return [cause.code for cause in error.causes]

    assert run(function, work=failing("a", "b")).output == ["no", "no"]
    assert run(function, work=failing("a")).status == "completed"


def test_a_rollback_ends_a_race_at_once() -> None:
    async def canceled(cx: Cx) -> None:
        note = await cx.listen("note", Note)
        raise Rollback("canceled", note.text)

    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "paid")
        await cx.race("r", ship=lambda cx: step(cx, "ship"), canceled=canceled)

    flow_run = run(function, work=lambda a: Done("p") if a.id == "paid" else LateAnswer("1d", 0))
    flow_run.send(Note("too late"))

    assert flow_run.status == "failed"
    assert flow_run.error is not None
    assert (flow_run.error.kind, flow_run.error.message) == ("rollback", "too late")
    assert flow_run.error.path == "r/canceled"
    assert undone(flow_run) == ["p"]


def test_the_completed_steps_of_losers_are_undone_before_the_race_ends_if_it_says_so() -> None:
    async def loser(cx: Cx) -> None:
        await step(cx, "booked")
        await cx.sleep("long", "9d")

    async def function(cx: Cx, order: Order) -> str:
        winner, _ = await cx.race(
            "r", rollback_losers=True, loser=loser, time=lambda cx: cx.sleep("wait", "5s")
        )
        await step(cx, "after")
        return winner

    flow_run = run(function)
    flow_run.advance("5s")

    assert flow_run.output == "time"
    assert requested(flow_run) == ["r/loser/booked", "r/loser/booked/~undo", "after"]


def test_bodies_cannot_change_the_values_that_they_capture() -> None:
    """PF-43: a body that has ended is not run again."""

    async def function(cx: Cx, order: Order) -> list[str]:
        names: list[str] = []

        async def branch(cx: Cx) -> None:
            names.append((await step(cx, "a")).id)

        await cx.join("all", one=branch)
        await cx.scope("inner", branch)
        await cx.local("local", lambda _: names.append("x"))
        names.append("own")
        await cx.sleep("s", "1s")
        return names

    flow_run = run(function)
    flow_run.finish()

    assert flow_run.output == ["own"]


def test_a_loop_has_its_state_and_names_are_free_in_each_iteration() -> None:
    async def iteration(cx: Cx, state: dict[str, int]) -> Continue | Break:
        await step(cx, "work")
        state["count"] += 1
        return Break(state["count"]) if state["count"] == 3 else Continue(state)

    async def function(cx: Cx, order: Order) -> Any:
        return await cx.loop("items", {"count": 0}, iteration)

    flow_run = run(function)

    assert flow_run.output == 3
    assert requested(flow_run) == [f"items/~{number}/work" for number in range(3)]


def test_messages_wait_in_order_and_a_deadline_ends_a_listen() -> None:
    async def function(cx: Cx, order: Order) -> Any:
        await cx.sleep("busy", "1s")
        two = await cx.listen("two", Note, most=2)
        one = await cx.listen("one", [Note])
        none = await cx.listen("none", Note, timeout="5s")
        empty = await cx.listen("empty", Note, timeout="5s", most=3)
        return [note.text for note in two], one.text, none, empty

    flow_run = run(function)
    for text in "abc":
        flow_run.send(Note(text))
    flow_run.finish()

    assert flow_run.output == (["a", "b"], "c", None, [])


def test_rollback_to_undoes_the_steps_since_the_checkpoint_and_continues() -> None:
    async def function(cx: Cx, order: Order) -> str:
        await step(cx, "before")
        await cx.checkpoint("hotels")
        await step(cx, "one")
        await step(cx, "two")
        await cx.rollback_to("none", "hotels")
        await cx.commit("final")
        await step(cx, "after")
        raise Critical("no")

    flow_run = run(function)

    assert flow_run.status == "failed"
    assert undone(flow_run) == ["two", "one", "after"]


def test_local_values_views_lines_events_and_versions_are_made_once() -> None:
    async def function(cx: Cx, order: Order) -> Any:
        cx.log("begin")
        at, number, uuid = await cx.local("x", lambda x: (x.now, x.random(6), x.uuid()))
        cx.publish(Note("working"))
        await cx.emit("told", Note("event"))
        version = await cx.version("v", 2)
        await cx.removed("old", "step")
        await cx.sleep("s", datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC))
        cx.log("end")
        return at, number, uuid, version

    flow_run = run(function)
    assert flow_run.view == Note("working")
    flow_run.finish()

    at, number, uuid, version = flow_run.output
    assert at == datetime(2026, 1, 1, tzinfo=UTC)
    assert 0 <= number < 6
    assert (len(uuid), uuid[14], version) == (36, "4", 2)
    assert (flow_run.lines, flow_run.emitted) == (["begin", "end"], [Note("event")])
    assert flow_run.now_ns % (60 * 10**9) == 7 * 10**9
    again = run(function)
    again.finish()
    assert again.output == flow_run.output


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("await cx.step('a', Work('a'), retry=Retry(0))", "retry"),
        ("await cx.step('a', Work('a'), retry=Retry(3, '-1s'))", "duration"),
        ("await cx.sleep('a', '-1s')", "duration"),
        ("await cx.listen('a', Note, most=0)", "count"),
        ("await cx.join('a', at_most=0)", "at_most"),
        ("await cx.loop('a', 1, None, history_every=0)", "interval"),
        ("await cx.rollback_to('a', 'nowhere')", "checkpoint"),
    ],
)
def test_arguments_without_sense_are_critical(code: str, expected: str) -> None:
    names: dict[str, Any] = {}
    source = f"async def function(cx, order):\n    {code}\n"
    exec(source, {"Work": Work, "Retry": Retry, "Note": Note}, names)

    flow_run = run(names["function"])

    assert flow_run.error is not None
    assert (flow_run.error.kind, flow_run.error.code) == ("critical", expected)
    assert flow_run.error.path == "a"


@pytest.mark.parametrize(
    ("names", "kind"), [(["a", "a"], "flow_name"), ([""], "flow_name"), (["x" * 129], "flow_name")]
)
def test_a_wrong_name_is_a_fault(names: list[str], kind: str) -> None:
    async def function(cx: Cx, order: Order) -> None:
        for name in names:
            await cx.step(name, Work("a"))

    with pytest.raises(LocalFault, match=kind):
        run(function)


def test_code_that_differs_between_turns_diverges() -> None:
    names = iter("abcdef")

    async def function(cx: Cx, order: Order) -> None:
        await cx.step(next(names), Work("a"))

    with pytest.raises(LocalFault, match="diverged: a: expected step, found step 'b'"):
        run(function)


def run_with_calls(function: Function, answer: Any = None) -> LocalFlow:
    decorated = flow("shop/order@1", key="id", calls=[SHIP])(function)
    answers: dict[Any, Any] = {Undo: Done("undone")}
    return LocalFlow(decorated, Order("o"), answers | ({SHIP: answer} if answer else {}))


def test_a_call_waits_for_the_result_of_the_other_flow_and_a_spawn_does_not() -> None:
    """PF-48."""

    async def function(cx: Cx, order: Order) -> str:
        await cx.spawn("bill", BILL, order)
        done = await cx.call("ship", SHIP, Order(f"{order.id}-1"))
        return done.id

    waiting = run_with_calls(function)
    assert (waiting.status, waiting.open_paths) == ("running", ["ship"])
    waiting.answer("ship", Done("sent"))

    assert waiting.output == "sent"
    assert run_with_calls(function, lambda given: Done(given.id)).output == "o-1"
    assert waiting.flows == [
        StartedFlow(path="bill", name="shop/bill@1", input=Order("o"), is_called=False),
        StartedFlow(path="ship", name="shop/ship@1", input=Order("o-1"), is_called=True),
    ]
    assert requested(waiting) == []


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Rollback("no", "not now"), "rollback"),
        (JoinFailed("no", "not now"), "critical"),
        (ErrorAnswer("no", "not now"), "critical"),
    ],
)
def test_a_failed_call_has_the_failure_of_the_other_flow_as_its_cause(
    failure: Any, kind: str
) -> None:
    """PF-48, FL-71."""

    async def function(cx: Cx, order: Order) -> None:
        await cx.call("ship", SHIP, order)

    error = run_with_calls(function, failure).error

    assert error is not None
    assert (error.kind, str(error)) == (kind, "no: not now (ship)")
    assert [str(cause) for cause in error.causes] == ["no: not now"]


def test_a_call_is_undone_and_one_that_loses_is_canceled() -> None:
    """PF-48."""

    async def function(cx: Cx, order: Order) -> None:
        await cx.call("ship", SHIP, order, rollback=lambda done: Undo(done.id))
        raise Critical("enough")

    async def races(cx: Cx, order: Order) -> str:
        branch, _ = await cx.race(
            "race",
            ship=lambda cx: cx.call("ship", SHIP, order),
            late=lambda cx: cx.sleep("late", "1h"),
        )
        return branch

    assert undone(run_with_calls(function, Done("sent"))) == ["sent"]
    late = run_with_calls(races)
    late.finish()
    assert (late.output, late.open_paths) == ("late", [])


def test_a_call_of_a_flow_that_calls_does_not_have_is_a_fault() -> None:
    """PF-45."""

    async def function(cx: Cx, order: Order) -> None:
        await cx.call("bill", BILL, order)

    with pytest.raises(LocalFault, match="bill calls shop/bill@1, and calls=") as failure:
        run_with_calls(function)
    assert failure.value.kind == "flow_listen"


def test_an_effect_without_an_answer_waits_for_one() -> None:
    async def function(cx: Cx, order: Order) -> str:
        return (await step(cx, "a")).id

    flow_run = LocalFlow(flow("shop/order@1", key="id")(function), Order("o"))

    assert (flow_run.status, flow_run.open_paths) == ("running", ["a"])
    with pytest.raises(KeyError, match="no attempt is open at 'b'"):
        flow_run.answer("b", Done("x"))
    flow_run.answer("a", Done("x"))
    assert flow_run.output == "x"


def test_an_exception_of_the_code_reaches_the_test() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await step(cx, "a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(function)


def test_wrong_use_is_refused() -> None:
    async def function(cx: Cx, order: Order) -> None:
        await cx.sleep("a", "1s")

    with pytest.raises(TypeError, match="expected a function with @flow"):
        LocalFlow(function, Order("o"))
    flow_run = run(function)
    with pytest.raises(TypeError, match="expected a class of listens"):
        flow_run.send(Order("x"))
    with pytest.raises(RuntimeError, match="it is running"):
        _ = flow_run.output
    with pytest.raises(ValueError, match="expected a text such as 1m30s, found 'soon'"):
        flow_run.advance("soon")


def test_the_example_of_the_page_passes_mypy_strict_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PF-16, PF-47."""
    page = (ROOT / "spec" / "python-flows.md").read_text("utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    checks = (
        "\n\nasync def check(cx: Cx) -> Receipt:\n    return await cx.step('x', Charge('o', 3))\n"
    )
    wrong = "\n\nasync def wrong(cx: Cx) -> int:\n    return await cx.step('x', Charge('o', 3))\n"
    path = tmp_path / "shop_flow.py"
    path.write_text(example + checks + wrong)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache"]
    done = subprocess.run(
        [*command, path.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.stdout.count("error:") == 1, done.stdout
    assert 'expected "type[int]", got "type[Receipt]"' in done.stdout
    monkeypatch.syspath_prepend(str(tmp_path))
    shop = importlib.import_module("shop_flow")
    flow_run = LocalFlow(shop.order, shop.Order("o", 3), {shop.Charge: shop.Receipt("r")})
    assert flow_run.output == "r"

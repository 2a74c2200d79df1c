"""Traces show the causes of a record, its effects and the reasons it waits (A-40 to A-52)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from aos.core.journal.faults import FaultKind
from aos.core.journal.records import Ref
from aos.errors import BadUsage, Damage
from aos.read.lens.words import time_text
from aos.read.trace import trace as tracing
from aos.read.trace import tree_growth as growing
from aos.read.trace.render import lines, plain
from aos.read.trace.trace import trace
from aos.read.trace.trace_nodes import NO_CELL_WAITS
from aos.read.trace.trace_tree import Node, Trace
from aos.read.views.diagnosis import ADVICE, diagnose
from aos.read.views.journal_view import journal
from aos.read.views.reason import Reason
from aos.read.views.view import Running, RunningTask, View
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.memory_world import (
    START_NS,
    Envelope,
    MemoryWorld,
    air,
    ask,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)
from tests.prove.journals import (
    CHARGE,
    LEDGER,
    ORDER,
    PLACED,
    SECOND,
    TIMER,
    Shop,
    busy_shop,
    store_of,
)


@cache
def a_shop() -> Shop:
    """One world for all tests that do not change it."""
    return busy_shop()


def view_of(world: MemoryWorld, *, later_ns: int = 0) -> View:
    return View(world.state, store_of(world), now_ns=world.now_ns + later_ns)


@cache
def view() -> View:
    return view_of(a_shop(), later_ns=12 * SECOND)


def traced(*words: str) -> Trace:
    return trace(view(), words)


def shape(node: Node) -> Any:
    """Return a tree as (kind, record, children)."""
    return node.kind, node.seq, [shape(child) for child in node.children]


def find(node: Node, kind: str, seq: int) -> Node:
    todo = [node]
    while todo:
        each = todo.pop()
        if (each.kind, each.seq) == (kind, seq):
            return each
        todo.extend(each.children)
    raise AssertionError(f"no {kind} of record {seq}")


def test_an_event_is_followed_to_everything_that_came_of_it() -> None:
    """A-40, A-42."""
    (root,) = traced("4").roots

    assert shape(root) == (
        "event", 4, [("step", 6, [("intent", 6, [("receipt", 8, [("step", 10, [
            ("emitted", 10, [("step", 12, [])]),
        ])])])])],
    )  # fmt: skip
    assert root.is_target
    asked = find(root, "intent", 6)
    assert (asked.subject, asked.status, asked.value) == (CHARGE, "ok", {"amount": 5, "memo": ""})
    assert asked.took_ns is not None
    assert find(root, "step", 10).status == "completed"
    assert find(root, "step", 12).cell == (LEDGER, "c-1")
    assert find(root, "receipt", 8).value == {"id": "ch-ord-1"}


def test_a_step_is_shown_under_all_its_causes() -> None:
    """A-40. The trace shows only the path from the roots to the step."""
    (root,) = traced("22").roots

    assert (root.kind, root.seq, root.is_target) == ("event", 5, False)
    target = find(root, "step", 22)
    assert target.is_target
    assert shape(target)[2][0][:2] == ("intent", 22)
    assert find(root, "intent", 7).status == "error"
    assert find(root, "intent", 11).subject == TIMER
    assert find(root, "intent", 11).status == "ok"


def test_a_receipt_is_shown_under_its_intent() -> None:
    """A-40."""
    (root,) = traced("23").roots

    receipt = find(root, "receipt", 23)
    assert receipt.is_target
    assert receipt.children[0].seq == 25
    assert find(root, "intent", 22).children == (receipt,)


def test_an_intent_is_the_target_of_its_own_trace() -> None:
    """A-40."""
    intent = a_shop().intent_of("ord-3").intent.hex()

    found = traced(intent[:8])

    assert found.target == f"intent blake3:{intent}"
    asked = find(found.roots[0], "intent", 17)
    assert (asked.is_target, asked.status) == (True, "open")
    settled = find(traced("5").roots[0], "intent", 7).intent
    assert settled is not None
    (root,) = traced(settled).roots
    assert find(root, "intent", 7).is_target
    assert find(root, "step", 27).cell == (LEDGER, "c-1")


def test_records_that_follow_from_nothing_are_traced_too() -> None:
    """A-40."""
    for seq, kind in ((1, "genesis"), (2, "manifest"), (3, "start")):
        (root,) = traced(str(seq)).roots
        assert (root.kind, root.status, root.children) == (kind, "recorded", ())


def test_a_fault_says_what_it_was() -> None:
    """A-42."""
    found = traced("14")

    fault = find(found.roots[0], "fault", 18)
    assert fault.status == "failed"
    assert fault.note == "trap: step: an unreachable instruction is reached"
    assert [(case.key, case.status) for case in found.cases] == [("ord-4", "failed")]


def test_a_cell_has_a_timeline_of_all_its_inputs() -> None:
    """A-45."""
    found = traced("order", "ord-2")

    assert [(root.kind, root.seq) for root in found.roots] == [
        ("event", 5), ("receipt", 9), ("receipt", 21), ("receipt", 23),
    ]  # fmt: skip
    assert [root.children[0].seq for root in found.roots] == [7, 11, 22, 25]
    asked = found.roots[0].children[0].children[0]
    assert (asked.kind, asked.status, asked.children) == ("intent", "error", ())
    emitted = found.roots[3].children[0].children[0]
    assert (emitted.kind, emitted.children) == ("emitted", ())
    assert found.earlier == 0
    assert found.cases[0].reasons[0].text == "its workflow declared it completed"


def test_the_timeline_of_a_cell_fed_by_others_says_by_whom() -> None:
    """A-45."""
    found = traced("ledger", "c-1")

    assert [(root.kind, root.seq, root.note) for root in found.roots] == [
        ("emitted", 10, f"from step 10 of {ORDER} ord-1"),
        ("emitted", 25, f"from step 25 of {ORDER} ord-2"),
        ("emitted", 26, f"from step 26 of {ORDER} ord-6"),
    ]
    assert [root.children[0].seq for root in found.roots] == [12, 27, 28]
    # Each has the stamp of the input from which it came, as in the trace of the sender.
    sent = traced("order", "ord-1")
    assert found.roots[0].at_ns is not None
    assert found.roots[0].at_ns in [root.at_ns for root in sent.roots]
    assert found.roots[0].children[0].at_ns == found.roots[0].at_ns


def test_only_the_latest_inputs_of_a_busy_cell_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A-45."""
    monkeypatch.setattr(tracing, "INPUTS_MAX", 2)

    found = traced("order", "ord-2")

    assert [root.seq for root in found.roots] == [21, 23]
    assert found.earlier == 2
    assert lines(found)[0].text == "… earlier ones are left out"


def test_a_trace_has_so_many_nodes_and_says_what_it_leaves_out() -> None:
    """A-46."""
    found = trace(view(), ["4"], nodes_max=3)

    asked = find(found.roots[0], "intent", 6)
    assert (asked.children, asked.left_out) == ((), 1)
    assert "└─ … 1 more not shown" in plain(lines(found))[-1]


def test_a_trace_goes_so_many_causes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A-46."""
    monkeypatch.setattr(growing, "CAUSES_MAX", 3)

    found = traced("22")

    assert found.earlier == 1
    assert (found.roots[0].kind, found.roots[0].seq) == ("step", 11)


def test_a_document_of_a_trace_is_json() -> None:
    """A-41."""
    for words in (["4"], ["22"], ["order", "ord-3"], ["2"]):
        found = traced(*words).to_document()
        assert json.loads(json.dumps(found)) == found
    root = traced("4").to_document()["roots"][0]
    assert set(root) == {
        "kind", "world", "seq", "index", "cell", "subject", "status", "at_ns", "took_ns", "value",
        "intent", "flow", "note", "logs", "is_target", "left_out", "children",
    }  # fmt: skip
    assert root["children"][0]["cell"] == {"workflow": ORDER, "key": "ord-1"}
    assert traced("4").roots[0].to_document() == root


def asking(value: object, *logs: str, payload: object = None) -> Trace:
    """A step that asked for one effect, which was answered."""
    receipt = Node(kind="receipt", seq=6, status="delivered", value=payload, note="ok, attempt 1")
    asked = Node(
        kind="intent", seq=5, status="ok", subject=CHARGE, value=value, intent="blake3:" + "0" * 64,
        children=(receipt,),
    )  # fmt: skip
    step = Node(
        kind="step", seq=5, status="running", cell=(ORDER, "o-1"), note="{}", logs=logs,
        children=(asked,),
    )  # fmt: skip
    return Trace(target="record 5", roots=(step,), earlier=0, cases=())


def test_values_are_cut_to_the_width_of_the_line_and_never_without_one() -> None:
    """A-48."""
    found = asking({"note": "n" * 500}, payload={"note": "p" * 500})

    whole = plain(lines(found))[1]
    cut = plain(lines(found, width=200))[1]
    narrow = plain(lines(found, width=10))[1]

    assert ("n" * 500 in whole, "p" * 500 in whole) == (True, True)
    assert 190 <= len(cut) <= 200
    assert cut.count("…") == 3
    assert narrow.count("n" * 14 + "…") == narrow.count("p" * 14 + "…") == 1


def test_a_trace_for_people_has_times_in_place_of_nanoseconds() -> None:
    """A-48."""
    world = a_shop()
    spelled = View(world.state, store_of(world))
    spelled.spell()

    drawn = plain(lines(trace(spelled, ["order", "ord-2"])))
    (timer,) = (line for line in drawn if f"asks {TIMER}" in line)

    assert re.search(r'"deliver_at_ns":"20\d\d-\d\d-\d\dT[\d:.]+Z"', timer)


def test_the_lines_that_a_step_logged_are_lines_below_it() -> None:
    """A-48."""
    assert plain(lines(asking(None, "paid 5 cents", "thanked")))[:3] == [
        f"step 5: {ORDER} o-1 → running",
        "├─ log: paid 5 cents",
        "├─ log: thanked",
    ]


def test_the_trace_of_a_cell_follows_its_events_into_other_cells() -> None:
    """A-45a."""
    alone = trace(view(), ["order", "ord-1"])
    followed = trace(view(), ["order", "ord-1"], follow_events=True)

    def every(found: Trace) -> list[Node]:
        met = list(found.roots)
        for node in met:
            met.extend(node.children)
        return met

    def cells_of(found: Trace) -> set[object]:
        return {node.cell for node in every(found) if node.kind == "step"}

    assert cells_of(alone) == {(ORDER, "ord-1")}
    assert cells_of(followed) == {(ORDER, "ord-1"), (LEDGER, "c-1")}
    assert len(every(followed)) == len(every(alone)) + 1


def test_a_trace_reads_as_a_tree() -> None:
    """A-48."""
    text = plain(lines(traced("5")))

    assert text[0].startswith(f'event 5: {PLACED} {{"amount":7,"order_id":"ord-2"}} · 2023-11-14T')
    assert text[0].endswith("  ◀")
    assert text[1] == f"└─ step 7: {ORDER} ord-2 → waiting"
    assert text[2].startswith(f'   └─ asks {CHARGE} {{"memo":"","amount":7}} · blake3:')
    assert "error after " in text[2]
    assert '(receipt 9: delivered, attempt 1) {"code":"declined"' in text[2]
    assert text[-1].strip() == f"└─ step 27: {LEDGER} c-1 → running"


def test_lines_say_what_is_bad() -> None:
    """A-48."""
    event, case = lines(traced("14"))

    assert event.children[0].is_bad
    assert (case.kind, case.is_bad) == ("case", True)
    assert case.children[0].kind == "reason"


def test_a_deep_trace_is_drawn_without_end_of_stack() -> None:
    """A-46. Each step emits the event that causes the next one."""
    depth = 3000

    def count(envelope: Envelope) -> Envelope:
        state = state_of(envelope) or {"n": 0}
        left = event_of(envelope)["left"]
        events = [emit("t/Tick@1", {"left": left - 1})] if left else []
        return {"state": encode({"n": state["n"] + 1}), "domain_events": events}

    nodes = [
        schema("t/Tick@1", {"record": {"left": {"int": {}}}}),
        schema("t/N@1", {"record": {"n": {"int": {}}}}),
        workflow("t/clock@1", state="t/N@1", event="t/Tick@1"),
    ]
    limits = {"world": {"cascade_depth": depth + 1}}
    loaded = air(nodes, [route("t/Tick@1", "t/clock@1")], limits=limits)
    world = MemoryWorld(loaded, {"t/clock@1": count})
    world.send("t/Tick@1", {"left": depth})
    world.run()

    found = trace(view_of(world), ["3"], nodes_max=10 * depth)

    assert len(plain(lines(found))) == 2 * (depth + 1)
    assert len(json.dumps(found.roots[0].subject)) > 0
    document = found.to_document()["roots"][0]
    for _ in range(depth):
        document = document["children"][0]
    assert trace(view_of(world), ["clock"]).earlier == depth + 1 - tracing.INPUTS_MAX


# Why a case makes no progress.


def reasons(world: MemoryWorld, key: str, *, later_ns: int = 0) -> tuple[Reason, ...]:
    return trace(view_of(world, later_ns=later_ns), ["order", key]).cases[0].reasons


def waiting_for_a_timer() -> Shop:
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    world.fail(world.intent_of("ord-1"), "declined")
    world.run()
    return world


def test_a_case_that_waits_for_an_executor_says_for_which() -> None:
    """A-51."""
    (reason,) = traced("13").cases[0].reasons

    assert reason.kind == "effect"
    assert reason.text.startswith(f"waits for {CHARGE} (blake3:")
    assert reason.text.endswith("): no answer for 13 s")
    digits = a_shop().intent_of("ord-3").intent.hex()[:12]
    assert reason.next == (
        f"run the world with an executor named test that has a function for {CHARGE}: "
        "aos run --executors MODULE:ATTRIBUTE; "
        f"or cancel it: aos effects cancel {digits}"
    )
    assert not reason.is_stuck


def while_running(effects: set[str], *tasks: RunningTask) -> Reason:
    """Why ord-3 waits, while a process runs the world."""
    shown = View(a_shop().state, store_of(a_shop()), now_ns=a_shop().now_ns + 12 * SECOND)
    intent = a_shop().intent_of("ord-3").intent
    shown.running = Running(frozenset(effects), dict.fromkeys([intent], *tasks) if tasks else {})
    (reason,) = trace(shown, ["13"]).cases[0].reasons
    return reason


def test_a_case_that_a_process_works_on_says_how_far_it_is_and_does_not_advise_to_run_it() -> None:
    """A-51a."""
    now_ns = a_shop().now_ns + 12 * SECOND
    cancel = f"aos effects cancel {a_shop().intent_of('ord-3').intent.hex()[:12]}"

    at_work = while_running(
        {CHARGE}, RunningTask("running", 2, now_ns - 116 * SECOND, limit_ns=7 * SECOND)
    )
    pausing = while_running({CHARGE}, RunningTask("backoff", 3, now_ns + 8 * SECOND))
    queued = while_running({CHARGE})
    without = while_running({TIMER})

    assert at_work.text.endswith(
        ": no answer for 13 s; in its second attempt, since 1 min 56 s, limit 7.0 s"
    )
    assert pausing.text.endswith(": no answer for 13 s; its third attempt begins in 8.0 s")
    assert queued.text.endswith("; the process that runs the world has it queued")
    assert at_work.next == pausing.next == queued.next == f"to cancel it: {cancel}"
    assert without.text.endswith("; the process that runs the world has no executor for it")
    assert without.next == (
        "restart that process with an executor named test: aos run --executors MODULE:ATTRIBUTE; "
        f"or cancel it: {cancel}"
    )


def test_a_timer_and_mail_need_no_advice_while_a_process_runs_the_world() -> None:
    """A-51a."""
    world = waiting_for_a_timer()
    id = (ORDER, encode("ord-1"))
    late = diagnose(
        world.state, id, "ord-1", store_of(world).blob,
        now_ns=world.now_ns + 5 * SECOND, running=Running(frozenset(), {}),
    )  # fmt: skip
    world.place("ord-9", 5)
    ready = diagnose(
        world.state, (ORDER, encode("ord-9")), "ord-9", store_of(world).blob,
        now_ns=world.now_ns, running=Running(frozenset(), {}),
    )  # fmt: skip

    assert [(each.kind, each.next) for each in (*late, *ready)] == [
        ("timer", None),
        ("ready", None),
    ]
    assert not ready[0].is_stuck


def test_a_timer_says_when_it_is_due() -> None:
    """A-51."""
    world = waiting_for_a_timer()

    (soon,) = reasons(world, "ord-1")
    (late,) = reasons(world, "ord-1", later_ns=5 * SECOND)
    (far,) = reasons(world, "ord-1", later_ns=-40 * 86_400 * SECOND)

    assert (far.next, far.is_stuck) == (None, False)
    assert far.text.startswith("waits until 2023-11-14T22:13:22.000Z for a timer, in 40 d")
    assert soon.kind == "timer"
    assert soon.text.startswith("timer due at 2023-11-14T22:13:22.000Z, in 1.9 s")
    assert soon.next is None
    assert late.text.startswith("timer was due at 2023-11-14T22:13:22.000Z, 3.0 s ago")
    assert late.next == "it fires while the world runs: aos run"


def test_a_timer_whose_params_are_lost_says_so() -> None:
    """A-51."""
    world = waiting_for_a_timer()
    intent = world.intent_of("ord-1")
    world.state.intents[intent.intent] = intent._replace(params=Ref(Hash(bytes(32)), 5))

    def lost(hash: Hash, /) -> bytes:
        raise Damage("missing")

    (reason,) = diagnose(world.state, intent.cell, "ord-1", lost, now_ns=world.now_ns)
    assert (reason.is_stuck, reason.next) == (True, "aos verify")


def test_a_fault_says_where_and_what_to_do() -> None:
    """A-52."""
    (reason,) = traced("order", "ord-4").cases[0].reasons

    assert reason == Reason(
        kind="fault",
        text="failed: fault trap at record 18: step: an unreachable instruction is reached",
        is_stuck=True,
        next="fix its module, or do not send this input; look at aos trace 18; then "
        f"aos cells retry {ORDER} ord-4 (or, to skip the entry that failed: "
        f"aos cells retry {ORDER} ord-4 --skip)",
    )


def test_mail_behind_a_fault_is_counted() -> None:
    """A-52."""
    world = Shop()
    world.place("ord-1", 0)
    world.run()
    world.place("ord-1", 1)
    world.place("ord-1", 2)
    world.run()

    (reason,) = reasons(world, "ord-1")

    assert reason.text.endswith("; blocked in its mailbox until it is resumed: 2 events")
    found = trace(view_of(world), ["order", "ord-1"])
    assert [root.status for root in found.roots] == ["delivered", "waiting", "waiting"]
    assert found.roots[1].note == f"{ORDER} ord-1 does not run it: it failed at record 5"


def test_a_declared_failure_points_to_the_state() -> None:
    """A-52."""
    world = waiting_for_a_timer()
    world.fired("ord-1")
    world.run()
    world.fail(world.intent_of("ord-1"), "declined")
    world.run()

    (reason,) = reasons(world, "ord-1")

    assert reason.text == f"its workflow declared it failed, by record {world.state.next_seq - 1}"
    assert reason.next == f"its state says why: aos inspect cell {ORDER} ord-1"
    assert reason.is_stuck


def test_a_receipt_that_fits_nothing_fails_its_cell_and_says_so() -> None:
    """A-52."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    world.settle(world.intent_of("ord-1"), {"id": 5})
    world.run()

    found = trace(view_of(world), ["4"])

    receipt = find(found.roots[0], "receipt", world.state.next_seq - 1)
    assert receipt.status == "faulted"
    (reason,) = found.cases[0].reasons
    assert reason.text.startswith("failed: fault receipt_invalid at record 6: shop/Charged@1")


def test_mail_that_no_process_runs_is_stuck() -> None:
    """A-51."""
    world = Shop()
    world.place("ord-1", 5)
    world.seal()

    found = trace(view_of(world), ["4"])

    assert found.roots[0].status == "waiting"
    assert found.roots[0].note == f"waits in the mailbox of {ORDER} ord-1"
    # It has not run, so that only a trace of the cell itself speaks of it.
    (reason,) = reasons(world, "ord-1")
    assert (reason.kind, reason.next) == ("ready", "run the world: aos run")


def test_an_event_that_no_route_takes_says_so() -> None:
    """A-42."""
    world = Shop()
    world.send("shop/Why@1", {"why": "nobody asked"})
    world.run()

    (root,) = trace(view_of(world), ["4"]).roots

    assert (root.status, root.children) == ("unrouted", ())
    assert "no subscription takes it" in plain(lines(trace(view_of(world), ["4"])))[0]


def test_a_cell_that_is_not_there_says_how_it_comes_to_be() -> None:
    """A-50."""
    (reason,) = traced("order", "ord-99").cases[0].reasons

    assert reason.kind == "absent"
    assert reason.next == f"send it an event: aos send {PLACED}"


def test_an_idle_cell_waits_for_an_event() -> None:
    """A-50."""
    (reason,) = traced("ledger", "c-1").cases[0].reasons

    assert (reason.kind, reason.is_stuck, reason.next) == ("idle", False, None)


def test_a_deleted_cell_drops_its_intents_and_the_trace_says_so() -> None:
    """A-42."""

    def fickle(envelope: Envelope) -> Envelope:
        if state_of(envelope) is not None:
            return {"state": None}
        params: Value = {"deliver_at_ns": START_NS + SECOND, "key": None}
        return {"state": encode({"n": 1}), "effects": [ask(TIMER, params)]}

    nodes = [
        schema("t/Do@1", {"record": {}}),
        schema("t/N@1", {"record": {"n": {"int": {}}}}),
        schema(
            "t/Event@1",
            {
                "variant": {
                    "do": {"ref": "t/Do@1"},
                    "receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                }
            },
        ),
        workflow("t/fickle@1", state="t/N@1", event="t/Event@1", effects=[TIMER]),
    ]
    world = MemoryWorld(air(nodes, [route("t/Do@1", "t/fickle@1")]), {"t/fickle@1": fickle})
    for _ in range(2):
        world.send("t/Do@1", {})
        world.run()

    found = trace(view_of(world), ["3"])

    asked = find(found.roots[0], "intent", 4)
    assert (asked.status, asked.note) == ("abandoned", NO_CELL_WAITS)
    found = trace(view_of(world), ["fickle"])
    ended = found.roots[1].children[0]
    assert ended.status == "deleted"
    assert ended.at_ns is not None
    assert found.cases[0].reasons[0].text == (
        f"its module deleted it in step {ended.seq} at {time_text(ended.at_ns)}: "
        "nothing of it is left"
    )


def test_every_kind_of_fault_has_advice() -> None:
    """A-52."""
    assert set(ADVICE) == set(FaultKind)


def test_a_target_that_is_not_there_is_refused() -> None:
    """A-8."""
    with pytest.raises(BadUsage):
        traced("99")


def test_a_key_with_spaces_is_quoted_in_commands() -> None:
    """A-50."""
    world = Shop()
    world.place("my order", 5)
    world.run()
    world.state.cells[ORDER, encode("my order")].declared = "failed"

    (reason, _) = reasons(world, "my order")

    assert reason.next == "its state says why: aos inspect cell shop/order.step@1 'my order'"


def test_an_event_that_overloads_a_cell_says_so() -> None:
    """A-42."""
    nodes = [
        schema("t/Do@1", {"record": {}}),
        workflow("t/w@1", state="t/Do@1", event="t/Do@1"),
    ]
    limits = {"world": {"mailbox": 1}}
    loaded = air(nodes, [route("t/Do@1", "t/w@1")], limits=limits)
    world = MemoryWorld(loaded, {"t/w@1": lambda _: {"state": encode({})}})
    world.send("t/Do@1", {})
    world.send("t/Do@1", {})
    world.run()

    (root,) = trace(view_of(world), ["4"]).roots

    assert (root.status, root.note) == ("overloaded", "overloaded: t/w@1")
    (reason,) = trace(view_of(world), ["w"]).cases[0].reasons
    assert reason.text.startswith("failed: fault overloaded at record 4")


def test_an_emitted_event_for_a_missing_instance_says_so() -> None:
    """A-42, A-45, K-42a: in the trace, in the journal, and in the timeline of that instance."""
    nodes = [
        schema("t/Do@1", {"record": {"key": {"text": {}}, "then": {"option": {"text": {}}}}}),
        schema("t/Stop@1", {"record": {"key": {"text": {}}}}),
        schema("t/Key@1", {"text": {}}),
        schema("t/Event@1", {"variant": {"Do": {"ref": "t/Do@1"}, "Stop": {"ref": "t/Stop@1"}}}),
        workflow("t/w@1", state="t/Stop@1", event="t/Event@1", key_schema="t/Key@1"),
    ]
    routes = [route("t/Do@1", "t/w@1", "key"), route("t/Stop@1", "t/w@1", "key", creates=False)]

    def module(envelope: Envelope) -> Envelope:
        then = event_of(envelope)["$value"].get("then")
        emits = [] if then is None else [emit("t/Stop@1", {"key": then})]
        return {"state": encode({"key": "-"}), "domain_events": emits}

    world = MemoryWorld(air(nodes, routes), {"t/w@1": module})
    world.send("t/Do@1", {"key": "a", "then": "b"})
    world.run()
    world.send("t/Do@1", {"key": "b", "then": None})
    world.run()

    (root,) = trace(view_of(world), ["3"]).roots
    (step,) = root.children
    (emitted,) = step.children
    assert (emitted.status, emitted.note) == ("no_instance", "no such instance: t/w@1 b")
    (found,) = journal(view_of(world), first=4, last=4)["records"]
    summary = found["summary"]
    assert summary == "t/w@1 a ← 3 · running · emits t/Stop@1 · no such instance: t/w@1 b"
    timeline = trace(view_of(world), ["w", "b"])
    assert [each.status for each in timeline.roots] == ["no_instance", "delivered"]

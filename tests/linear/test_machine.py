"""Instances against the model: events, clocks, crashes and snapshots in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aos.values.cbor import encode
from tests.linear.invariants import Watch, check_outbound
from tests.linear.model import Model, Refused, Row
from tests.linear.stage import LEASE, MODES, SECOND, Stage, plan_step, shipped
from tests.tools import long_form

INSTANCES = st.sampled_from(["i-1", "i-1", "i-1", "i-2"])
KEYS = st.sampled_from([None, "k-1", "k-2"])
WORKERS = st.sampled_from(["w-1", "w-1", "w-1", "w-2"])
TYPES = st.sampled_from(["PAID", "PAID", "SENT"])
OFTEN = st.sampled_from([True, True, True, False])
OFF_BY = st.sampled_from([0, 0, 0, 0, -1, 1])
LEASES = st.sampled_from([None, None, 10 * SECOND, 60 * SECOND])
VALUES = st.sampled_from([encode(1), encode("two"), encode([3])])
PATCHES = st.dictionaries(st.sampled_from(["a", "b"]), st.none() | VALUES, max_size=2)
TIMEOUTS = st.sampled_from([None, 0, 20 * SECOND])
PLANS = st.lists(
    st.builds(
        plan_step,
        st.sampled_from(["PICK", "SHIP"]),
        max_attempts=st.integers(1, 4),
        backoff=st.sampled_from([0, SECOND, 200 * SECOND]),
        lease=st.sampled_from([LEASE, 5 * SECOND]),
    ),
    min_size=1,
    max_size=3,
)
OUTCOMES = st.one_of(
    st.tuples(st.just("Completed"), st.fixed_dictionaries({"patch": PATCHES})),
    st.tuples(
        st.just("Waiting"), st.fixed_dictionaries({"event_type": TYPES, "timeout": TIMEOUTS})
    ),
    st.tuples(
        st.just("Retry"),
        st.fixed_dictionaries({"error": st.sampled_from(["busy", "é"]), "backoff": TIMEOUTS}),
    ),
    st.tuples(st.just("Dead"), st.fixed_dictionaries({"error": st.just("no such order")})),
)


class LinearMachine(RuleBasedStateMachine):
    """Two instances, two business keys and two workers in one world."""

    @initialize(
        mode=st.sampled_from(MODES),
        timers=st.booleans(),
        plan=PLANS,
        key=KEYS,
        wait_timeouts=OFTEN,
    )
    def begin(
        self,
        mode: str,
        timers: bool,
        plan: list[dict[str, Any]],
        key: str | None,
        wait_timeouts: bool,
    ) -> None:
        self.stage = Stage(mode, timers=timers)
        self.has_timers = timers
        self.models: dict[str, Model] = {}
        self.watches: dict[str, Watch] = {}
        self.keys: dict[str, str] = {}
        self.claims: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.sent = 0
        self.accepted: list[str] = []
        self.start("i-1", plan, key, wait_timeouts)

    # T1

    @rule(instance=INSTANCES, plan=PLANS, key=KEYS, wait_timeouts=OFTEN)
    def start(
        self, instance: str, plan: list[dict[str, Any]], key: str | None, wait_timeouts: bool
    ) -> None:
        given: dict[str, Any] = {"instance": instance, "wait_timeouts": wait_timeouts}
        is_new = instance not in self.models
        if key is None:
            assert self.stage.begin(*plan, **given) == ("Done" if is_new else "EXISTS")
        else:
            is_free = key not in self.keys
            assert self.stage.reserve(key, *plan, **given) == ("Done" if is_free else "TAKEN")
            is_new = is_new and is_free
            self.keys |= {key: instance} if is_new else {}
        if is_new:
            self.started(instance, plan, wait_timeouts)
        self.compare()

    def started(self, instance: str, plan: list[dict[str, Any]], wait_timeouts: bool) -> None:
        rows = [Row(step_type=each["type"], **_without_type(each)) for each in plan]
        is_source = self.stage.mode == "source"
        self.models[instance] = Model(
            rows, self.stage.now, is_source=is_source, wait_timeouts=wait_timeouts
        )
        self.watches[instance] = Watch(self.stage.state(instance))

    # Workers

    @rule(instance=INSTANCES, worker=WORKERS, lease=LEASES)
    def claim(self, instance: str, worker: str, lease: int | None) -> None:
        claim = {"worker": worker, "claim": f"c-{len(self.claims)}", "lease": lease}
        self.claims.append({"instance": instance, **claim})
        self.send_claim(self.claims[-1])

    def send_claim(self, claim: dict[str, Any]) -> None:
        self.expect(Model.claim, self.stage.claim(**claim), **claim)

    @rule(instance=INSTANCES, worker=WORKERS, seq=OFF_BY, epoch=OFF_BY, lease=LEASES)
    def extend(self, instance: str, worker: str, seq: int, epoch: int, lease: int | None) -> None:
        place = self.place(instance, seq, epoch)
        given: dict[str, Any] = {"instance": instance, "worker": worker, "lease": lease, **place}
        self.expect(Model.extend, self.stage.extend(**given), **given)

    @rule(instance=INSTANCES, worker=WORKERS, seq=OFF_BY, epoch=OFF_BY, outcome=OUTCOMES)
    def result(
        self, instance: str, worker: str, seq: int, epoch: int, outcome: tuple[str, dict[str, Any]]
    ) -> None:
        self.sent += 1
        given: dict[str, Any] = {
            "instance": instance,
            "worker": worker,
            **self.place(instance, seq, epoch),
        }
        outbound = [] if outcome[0] == "Retry" else [f"o-{self.sent}"]
        self.results.append(given | {"outcome": outcome, "outbound": outbound})
        self.send_result(self.results[-1])

    @precondition(lambda self: self.claims or self.results)
    @rule(back=st.integers(1, 3), is_claim=st.booleans())
    def send_again(self, back: int, is_claim: bool) -> None:
        sent = self.claims if is_claim else self.results
        if sent:
            again = sent[-min(back, len(sent))]
            self.send_claim(again) if is_claim else self.send_result(again)

    @rule(instance=INSTANCES, outcomes=st.lists(OUTCOMES, min_size=1, max_size=3))
    def work(self, instance: str, outcomes: list[tuple[str, dict[str, Any]]]) -> None:
        """A worker that claims what is due, when it is due, and sends its results in time."""
        for outcome in outcomes if instance in self.models else ():
            model = self.models[instance]
            if model.row.status == "RUNNING":
                self.to(model.row.locked_until + 1)
            self.to(model.row.next_run_at or model.row.deadline_at or 0)
            self.claim(instance, "w-1", None)
            self.result(instance, "w-1", 0, 0, outcome)

    def send_result(self, result: dict[str, Any]) -> None:
        instance, (arm, given) = result["instance"], result["outcome"]
        sent = {each: result[each] for each in ("instance", "worker", "seq", "epoch")}
        model = self.models.get(instance)
        before = model and model.last
        answer = self.stage.result(
            {"$tag": arm, "$value": given}, outbound=[*map(shipped, result["outbound"])], **sent
        )
        outbound = tuple(result["outbound"])
        expected = _call(model, Model.result, **sent, arm=arm, given=given, outbound=outbound)
        assert answer == expected
        if model is not None and model.last != before:
            self.watches[instance].accept(result["seq"], arm)
            self.accepted += outbound
        self.compare()

    # Everybody else

    @rule(
        instance=INSTANCES,
        numbers=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        type=TYPES,
        payload=VALUES,
    )
    def signal(self, instance: str, numbers: list[int], type: str, payload: bytes) -> None:
        for number in numbers:
            given: dict[str, Any] = {"event_id": f"e-{number}", "type": type, "payload": payload}
            answer = self.stage.signal(instance=instance, **given)
            self.expect(Model.signal, answer, instance, **given)

    @rule(instance=INSTANCES, is_meant=st.sampled_from([False] * 5 + [True]))
    def cancel(self, instance: str, is_meant: bool) -> None:
        if is_meant:  # otherwise most instances would end by it
            self.expect(Model.cancel, self.stage.cancel(instance=instance), instance)

    @rule(choice=st.integers(0, 20), off_by=st.sampled_from([-1, 0, 1]))
    def time_passes(self, choice: int, off_by: int) -> None:
        """To a time that matters, 1 ns before it, or 1 ns past it."""
        times = [self.stage.now + 7 * SECOND]
        for row in (model.row for model in self.models.values()):
            times += filter(None, (row.next_run_at, row.locked_until, row.deadline_at))
        self.to(times[choice % len(times)] + off_by)

    def to(self, when: int) -> None:
        self.stage.advance_to(max(when, self.stage.now))
        for model in self.models.values():
            model.advance(self.stage.now, has_timer=self.has_timers)
        self.compare()

    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        if from_snapshot:
            self.stage.world.snapshot()
        self.stage.world.restart()
        self.compare()

    # The model

    def place(self, instance: str, seq: int, epoch: int) -> dict[str, int]:
        """The current row and its epoch, or a place next to it."""
        model = self.models.get(instance)
        if model is None:
            return {"seq": 0, "epoch": 1}
        return {"seq": max(0, model.current + seq), "epoch": max(0, model.row.epoch + epoch)}

    def expect(
        self, event: Callable[..., str | None], answer: str, instance: str, **given: Any
    ) -> None:
        assert answer == _call(self.models.get(instance), event, **given)
        self.compare()

    def compare(self) -> None:
        """The world and the model agree, and every invariant holds."""
        for instance, model in self.models.items():
            state = self.stage.state(instance)
            assert _columns(state) == _columns_of(model)
            self.watches[instance].check(state)
            if model.status != "RUNNING":
                self.keys = {key: at for key, at in self.keys.items() if at != instance}
        for key in ("k-1", "k-2"):
            assert self.stage.holder(key) == self.keys.get(key)
        check_outbound([each["order"] for each in self.stage.outbound], self.accepted)

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            ended = [each.status for each in self.models.values() if each.status != "RUNNING"]
            assert sorted(each["status"] for each in self.stage.events("Ended")) == sorted(ended)
            self.stage.world.close()


def _call(model: Model | None, event: Callable[..., str | None], **given: Any) -> str:
    given.pop("instance", None)
    if model is None:
        return "instance_is_unknown"
    try:
        return event(model, **given) or "Done"
    except Refused as reason:
        return str(reason)


def _without_type(step: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name != "type"}


def _columns(state: dict[str, Any]) -> dict[str, Any]:
    ended_at = [state[f"{end}_at"] for end in ("completed", "failed", "canceled")]
    return {
        "rows": state["steps"],
        "status": state["status"],
        "current": state["current_step_seq"],
        "context": state["context"],
        "seen": list(zip(state["seen"], state["seen_types"] or [], strict=True)),
        "buffered": state["buffered"],
        "ended_at": ended_at,
    }


def _columns_of(model: Model) -> dict[str, Any]:
    ends = ("COMPLETED", "FAILED", "CANCELED")
    return {
        "rows": [vars(row) for row in model.rows],
        "status": model.status,
        "current": model.current,
        "context": model.context,
        "seen": list(model.seen.items()),
        "buffered": model.buffered,
        "ended_at": [model.ended_at if model.status == end else None for end in ends],
    }


LinearMachine.TestCase.settings = settings(
    max_examples=5_000 if long_form() else 80,
    stateful_step_count=40 if long_form() else 15,
    deadline=None,
)

TestLinear = LinearMachine.TestCase

"""A world with `aos/linear@1` and `aos/linear.bizkey@1`, driven as its clients drive it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.core.journal.records import Step
from aos.testing import NEVER, World
from aos.testing.plain import plain, plain_key
from aos.testing.problems import InputRefused
from aos.values.cbor import encode

LINEAR: Final = "aos/linear@1"
BIZ_KEY: Final = "aos/linear.bizkey@1"
TIMER: Final = "sys/timer.set@1"
SHIPPED: Final = "shop/Shipped@1"

MODES: Final = ("standard", "source")
MS: Final = 10**6
SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
DAY: Final = 86_400 * SECOND
LEASE: Final = 30 * SECOND
NULL: Final = encode(None)

NODES: Final[list[dict[str, Any]]] = [
    {
        "$kind": "manifest",
        "air_version": "2",
        "uses": ["aos/linear@1"],
        "schemas": [{"name": SHIPPED}],
        "modules": [],
        "workflows": [],
        "effects": [],
    },
    {"$kind": "defschema", "name": SHIPPED, "type": {"record": {"order": {"text": {}}}}},
]

Tagged = dict[str, Any]


def plan_step(
    type: str = "SHIP", *, max_attempts: int = 10, backoff: int = SECOND, lease: int = LEASE
) -> dict[str, Any]:
    return {"type": type, "max_attempts": max_attempts, "backoff": backoff, "lease": lease}


def start(instance: str = "i-1", *steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The value of an `aos/LinearStart@1`, with one plan step unless ``steps`` are given."""
    mode = {"$tag": more.pop("mode", "standard")}
    return {
        "instance": instance,
        "schedule": None,
        "type": "order.process",
        "version": 1,
        "mode": mode,
        "wait_timeouts": True,
        "context": {},
        "steps": [dict(each) for each in steps] or [plan_step()],
    } | more


def completed(**patch: bytes | None) -> Tagged:
    return {"$tag": "Completed", "$value": {"patch": patch}}


def waiting(event_type: str = "PAID", timeout: int | None = None) -> Tagged:
    return {"$tag": "Waiting", "$value": {"event_type": event_type, "timeout": timeout}}


def retry(error: str = "no answer", backoff: int | None = None) -> Tagged:
    return {"$tag": "Retry", "$value": {"error": error, "backoff": backoff}}


def dead(error: str = "no such order") -> Tagged:
    return {"$tag": "Dead", "$value": {"error": error}}


OUTCOMES: Final[Mapping[str, Tagged]] = {
    "Completed": completed(),
    "Waiting": waiting(),
    "Retry": retry(),
    "Dead": dead(),
}


def shipped(order: str = "o-1") -> dict[str, Any]:
    """An outbound event."""
    return {"schema": SHIPPED, "value": encode({"order": order})}


class Stage:
    """One world. ``answers`` are those of all steps so far, as short texts.

    Without ``timers`` the timers of leases never fire, as if the node were late: a lease then
    expires at the next claim. ``begin`` starts instances in ``mode``.
    """

    def __init__(
        self, mode: str = "standard", *, timers: bool = True, ingress: list[str] | None = None
    ) -> None:
        routing = {} if ingress is None else {"routing": {"ingress": ingress}}
        self.world = World([{**NODES[0], **routing}, *NODES[1:]])
        self.mode = mode
        self.answers: list[tuple[str, str]] = []
        self.details: list[str] = []
        self.outbound: list[dict[str, Any]] = []
        self._read = self.world.records
        self._claims = 0
        if not timers:
            self.world.on(TIMER, NEVER)

    # Inputs

    def begin(self, *steps: Mapping[str, Any], instance: str = "i-1", **more: Any) -> str:
        return self.send("Start", **start(instance, *steps, mode=self.mode, **more))

    def reserve(
        self, biz_key: str, *steps: Mapping[str, Any], instance: str = "i-1", **more: Any
    ) -> str:
        """The answer of the business key's cell."""
        given = start(instance, *steps, mode=self.mode, **more)
        return self.send("Reserve", biz_key=biz_key, start=given)

    def claim(
        self,
        worker: str = "w-1",
        *,
        claim: str | None = None,
        lease: int | None = None,
        instance: str = "i-1",
    ) -> str:
        """Claim under a new id, unless ``claim`` is given."""
        self._claims += claim is None
        return self.send(
            "Claim",
            instance=instance,
            worker=worker,
            claim=claim or f"c-{self._claims}",
            lease=lease,
        )

    def extend(
        self,
        worker: str = "w-1",
        *,
        lease: int | None = None,
        epoch: int | None = None,
        seq: int | None = None,
        instance: str = "i-1",
    ) -> str:
        seq, epoch = self._place(instance, seq, epoch)
        return self.send(
            "Extend", instance=instance, worker=worker, epoch=epoch, seq=seq, lease=lease
        )

    def result(
        self,
        outcome: Tagged,
        worker: str = "w-1",
        *,
        outbound: list[dict[str, Any]] | None = None,
        epoch: int | None = None,
        seq: int | None = None,
        instance: str = "i-1",
    ) -> str:
        """Send a result, of the current plan step and its epoch unless these are given."""
        seq, epoch = self._place(instance, seq, epoch)
        return self.send(
            "Result",
            instance=instance,
            worker=worker,
            epoch=epoch,
            seq=seq,
            outcome=outcome,
            outbound=outbound or [],
        )

    def signal(
        self, type: str = "PAID", event_id: str = "e-1", payload: bytes = NULL, **more: Any
    ) -> str:
        given = {"instance": "i-1", "event_id": event_id, "type": type, "payload": payload}
        return self.send("Signal", **given | more)

    def cancel(self, reason: str = "no longer wanted", *, instance: str = "i-1") -> str:
        return self.send("Cancel", instance=instance, reason=reason)

    def send(self, event: str, **value: Any) -> str:
        """Send ``aos/Linear<event>@1``, run, and return the first answer to it: ``Done``, ``Claimed
        SEQ EPOCH``, a reason, or the rule by which the kernel refuses the event."""
        before = len(self.answers)
        try:
            self.world.send(f"aos/Linear{event}@1", value)
        except InputRefused as problem:
            return problem.rule
        self.world.run()
        self._follow()
        return self.answers[before][1]

    def advance(self, by: int) -> None:
        self.world.advance(by)
        self._follow()

    def advance_to(self, when: int) -> None:
        self.world.advance_to(when)
        self._follow()

    # Views

    @property
    def now(self) -> int:
        return self.world.now_ns

    def state(self, instance: str = "i-1") -> dict[str, Any]:
        """The state, with variants as the names of their arms, without the timers of leases."""
        found = self.find(instance)
        assert found is not None, f"there is no instance {instance}"
        return found

    def find(self, instance: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.world.state(LINEAR, instance)
        if found is None:
            return None
        for row in found["steps"]:
            row["status"], row["task"] = row["status"]["$tag"], row["task"]["$tag"]
        found["status"], found["mode"] = found["status"]["$tag"], found["mode"]["$tag"]
        for name in ("timer", "timer_at", "timers"):
            del found[name]
        return found

    def row(self, seq: int | None = None, *, instance: str = "i-1") -> dict[str, Any]:
        """A row: the current one unless ``seq`` is given."""
        state = self.state(instance)
        found: dict[str, Any] = state["steps"][state["current_step_seq"] if seq is None else seq]
        return found

    def statuses(self, instance: str = "i-1") -> list[str]:
        """The status of the instance, then those of its rows."""
        state = self.state(instance)
        return [state["status"], *(row["status"] for row in state["steps"])]

    def holder(self, biz_key: str) -> str | None:
        """The instance that has a business key."""
        found = self.world.state(BIZ_KEY, biz_key)
        return None if found is None else str(found["instance"])

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events ``aos/Linear<name>@1`` that steps emitted."""
        found: list[dict[str, Any]] = self.world.events(f"aos/Linear{name}@1")
        return found

    def _place(self, instance: str, seq: int | None, epoch: int | None) -> tuple[int, int]:
        state = self.find(instance)
        if state is None:
            return seq or 0, epoch or 1
        seq = state["current_step_seq"] if seq is None else seq
        if epoch is None:
            epoch = state["steps"][seq]["epoch"] if seq < len(state["steps"]) else 1
        return seq, epoch

    def _follow(self) -> None:
        """Read the steps since the last call."""
        desk = self.world._desk
        for record in desk.records[self._read :]:
            if not isinstance(record, Step):
                continue
            answer = plain(record.ann, desk.read) if record.ann is not None else None
            self.answers.append((plain_key(record.cell[1]), _short(answer)))
            if answer is not None and answer["$tag"] == "Refused":
                self.details.append(answer["$value"]["detail"])
            self.outbound += [
                plain(event.value, desk.read) for event in record.events if event.schema == SHIPPED
            ]
        self._read = self.world.records


def _short(answer: Tagged | None) -> str:
    match answer:
        case {"$tag": "Claimed", "$value": {"seq": seq, "epoch": epoch}}:
            return f"Claimed {seq} {epoch}"
        case {"$tag": "Refused", "$value": {"reason": {"$tag": reason}}}:
            return str(reason)
        case {"$tag": "Done"}:
            return "Done"
        case _:
            raise AssertionError(f"the step has no answer: {answer}")

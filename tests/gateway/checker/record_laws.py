"""The laws of works, scores and epochs, in every state that the journal has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import RECORDS, Answer, History, Settlement, Step, tag
from tests.gateway.checker.journal import Map
from tests.gateway.checker.keccak import record_id
from tests.gateway.checker.studio import tx_steps

ENDS: Final = ("COMPLETED", "FAILED")
CONSTANT: Final = ("id", "type", "key", "created_at", "input", "policy")
AFTER_THE_END: Final = frozenset({"updated_at", "drift", "open", "is_reconciling"})
"""The fields that a reconciliation may change in a record that has ended."""

STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "WorkSubmission": (
        "UPLOAD_EVIDENCE", "AWAIT_ARWEAVE_CONFIRM", "SUBMIT_WORK_ONCHAIN", "AWAIT_TX_CONFIRM",
        "REGISTER_WORK", "AWAIT_REGISTER_CONFIRM",
    ),
    "Direct": (
        "SUBMIT_SCORE", "AWAIT_TX_CONFIRM", "REGISTER_VALIDATOR", "AWAIT_REGISTER_CONFIRM",
    ),
    "CommitReveal": (
        "COMMIT_SCORE", "AWAIT_COMMIT_CONFIRM", "REVEAL_SCORE", "AWAIT_REVEAL_CONFIRM",
        "REGISTER_VALIDATOR", "AWAIT_REGISTER_CONFIRM",
    ),
    "CloseEpoch": ("CHECK_PRECONDITIONS", "SUBMIT_CLOSE_EPOCH", "AWAIT_TX_CONFIRM"),
}  # fmt: skip
"""The steps of each type in their order; of scores by mode."""

AGAIN: Final = {
    "AWAIT_ARWEAVE_CONFIRM": "UPLOAD_EVIDENCE",
    "AWAIT_TX_CONFIRM": ("SUBMIT_WORK_ONCHAIN", "SUBMIT_SCORE", "SUBMIT_CLOSE_EPOCH"),
    "AWAIT_REGISTER_CONFIRM": ("REGISTER_WORK", "REGISTER_VALIDATOR"),
    "AWAIT_COMMIT_CONFIRM": "COMMIT_SCORE",
    "AWAIT_REVEAL_CONFIRM": "REVEAL_SCORE",
}
"""The only steps back: from a wait to the step that it waits for."""

PROGRESS_OF: Final = {
    "COMMIT_SCORE": "commit",
    "REGISTER_WORK": "register",
    "REGISTER_VALIDATOR": "register",
}
"""The prefix of the fields of a step with a transaction; of the main step ``onchain``."""


def check_records(history: History) -> Iterator[Finding]:
    """Every law, for every step of every record."""
    settled: dict[str, list[Settlement]] = {}
    for each in history.settlements:
        settled.setdefault(each.owner[1], []).append(each)
    for step in history.of(*RECORDS):
        if step.state is not None:
            for law in _LAWS:
                yield from law(step, step.state)
            yield from _evidence(step, step.state, settled.get(step.key, []))
        elif step.before is not None:
            yield _finding("record_removed", step, step.before, "the record was removed")


def kind_of(state: Map) -> str:
    """The type of a record; of a score its mode."""
    kind = tag(state["type"])
    return tag(state["input"]["mode"]) if kind == "ScoreSubmission" else kind


def progress_of(step: str) -> str:
    """The prefix of the progress of a step with a transaction."""
    return PROGRESS_OF.get(step, "onchain")


def _finding(law: str, step: Step, state: Map, message: str) -> Finding:
    return Finding(law=law, key=step.key, step=tag(state["step"]), seq=step.seq, message=message)


# --- constants (GW-20)


def _constant(step: Step, state: Map) -> Iterator[Finding]:
    for name in CONSTANT if step.before is not None else ():
        assert step.before is not None
        if state[name] != step.before[name]:
            yield _finding("constant_changed", step, state, f"{name} has changed")


def _progress(step: Step, state: Map) -> Iterator[Finding]:
    before: Map = {} if step.before is None else step.before["progress"]
    for name, value in before.items():
        if value is not None and state["progress"][name] != value:
            message = f"progress.{name} was {value!r} and is {state['progress'][name]!r}"
            yield _finding("progress_changed", step, state, message)


def _attempts(step: Step, state: Map) -> Iterator[Finding]:
    before = [] if step.before is None else step.before["attempts"]
    if state["attempts"][: len(before)] != before:
        yield _finding("attempts_changed", step, state, "an earlier attempt has changed or is gone")


def _the_end(step: Step, state: Map) -> Iterator[Finding]:
    if step.before is None or tag(step.before["state"]) not in ENDS:
        return
    changed = {name for name, value in step.before.items() if state[name] != value}
    if changed - AFTER_THE_END:
        names = ", ".join(sorted(changed - AFTER_THE_END))
        yield _finding("end_not_final", step, state, f"after its end these have changed: {names}")


# --- one state alone (GW-11, GW-12, GW-21)


def _identity(step: Step, state: Map) -> Iterator[Finding]:
    if state["key"] != step.key or state["id"] != record_id(step.key):
        yield _finding("identity_wrong", step, state, f"key {state['key']}, id {state['id']}")
    given = state["input"]
    words = [given["chain"], given["studio_address"]]
    if tag(state["type"]) == "CloseEpoch":
        words += [given["epoch"]]
    else:
        words += [given["data_hash"]]
    if tag(state["type"]) == "ScoreSubmission":
        words += [given["worker_address"], given["signer_address"]]
    expected = "/".join(map(str, words))
    if expected != step.key and _code(state) != "INVALID_INPUT":
        yield _finding("identity_wrong", step, state, f"its input is that of {expected}")


def _times(step: Step, state: Map) -> Iterator[Finding]:
    before = state["created_at"] if step.before is None else step.before["updated_at"]
    if state["updated_at"] < before:
        yield _finding("time_runs_back", step, state, f"{before} and then {state['updated_at']}")


def _state(step: Step, state: Map) -> Iterator[Finding]:
    """PENDING is never stored, and the fields of a stall and of an end belong to their states."""
    name, stall = tag(state["state"]), state["stall"]
    is_open = state["open"] is not None
    wrong = []
    if name == "PENDING":
        wrong.append("PENDING is stored")
    if (stall is not None) != (name == "STALLED"):
        wrong.append(f"it is {name}, and its stall is {stall}")
    if stall is not None and tag(stall) == "Auto" and not (is_open and state["pause"]):
        wrong.append("it waits for a timer that is not open")
    if stall is not None and tag(stall) == "Parked" and is_open and not state["is_reconciling"]:
        wrong.append("it is parked, and an effect is open")
    if name == "RUNNING" and not is_open and state["at_lane"] is None:
        wrong.append("it is RUNNING, and waits for nothing")
    if name in ENDS and is_open and not state["is_reconciling"]:
        wrong.append("it has ended, and an effect is open")
    status = {"COMPLETED": "completed", "FAILED": "failed"}.get(name)
    if (status or step.status) != step.status or (status is None and step.status in _ENDED):
        wrong.append(f"it is {name}, and its instance is {step.status}")
    yield from (_finding("state_inconsistent", step, state, each) for each in wrong)


_ENDED: Final = ("completed", "failed")


def _error(step: Step, state: Map) -> Iterator[Finding]:
    name, error = tag(state["state"]), state["error"]
    if name == "COMPLETED" and error is not None:
        yield _finding("end_inconsistent", step, state, f"COMPLETED with the error {error}")
    if name == "FAILED" and (error is None or error["recoverable"]):
        yield _finding("end_inconsistent", step, state, f"FAILED with the error {error}")
    if name == "FAILED" and _code(state) not in FINAL_CODES:
        yield _finding("failed_by_outage", step, state, f"FAILED by {_code(state)}")


FINAL_CODES: Final = frozenset(
    {
        "INVALID_INPUT", "CONFLICT", "EPOCH_CLOSED", "WINDOW_CLOSED", "TX_REVERTED", "INCONSISTENT",
        "ARWEAVE_REJECTED", "EVIDENCE_MISMATCH", "CANCELED",
    }
)  # fmt: skip
"""The failures that no waiting mends (GW-32). An outage is none (GW-30)."""


def _code(state: Map) -> str | None:
    return None if state["error"] is None else state["error"]["code"]


def _completed(step: Step, state: Map) -> Iterator[Finding]:
    if tag(state["state"]) != "COMPLETED":
        return
    progress = state["progress"]
    needed = {f"{progress_of(each)}_confirmed" for each in tx_steps(state)}
    if tag(state["type"]) == "WorkSubmission":
        needed |= {"evidence", "arweave_tx_id", "arweave_confirmed"}
    missing = sorted(each for each in needed if not progress[each])
    if missing:
        yield _finding("completed_early", step, state, f"COMPLETED without {', '.join(missing)}")


# --- from one state to the next (GW-22, GW-23)


def _order(step: Step, state: Map) -> Iterator[Finding]:
    order, now = STEPS[kind_of(state)], tag(state["step"])
    if now not in order:
        yield _finding("step_wrong", step, state, f"it is no step of {kind_of(state)}")
        return
    before = order[0] if step.before is None else tag(step.before["step"])
    is_back = before in order and order.index(now) < order.index(before)
    if is_back and now not in AGAIN.get(before, ()):
        yield _finding("step_back", step, state, f"from {before} back to {now}")


def _requests(step: Step, state: Map) -> Iterator[Finding]:
    """A request's number is new, and the lane gets exactly the request that the record awaits."""
    before = 0 if step.before is None else step.before["requests"]
    asked = [each.value for each in step.emitted if each.schema == "gw/TxRequested@1"]
    numbers = [each["request"] for each in asked]
    expected = [before + 1] if state["requests"] != before else []
    if numbers != expected or state["requests"] not in (before, before + 1):
        message = f"after request {before} it is at {state['requests']}, and asked for {numbers}"
        yield _finding("request_wrong", step, state, message)
    for each in asked:
        owner = each["owner"]["$value"]
        if owner != step.key or state["at_lane"] != each["request"]:
            yield _finding("request_wrong", step, state, f"it asked for {owner}")


_LAWS: Final[tuple[Callable[[Step, Map], Iterator[Finding]], ...]] = (
    _constant, _progress, _attempts, _the_end, _identity, _times, _state, _error, _completed,
    _order, _requests,
)  # fmt: skip


# --- evidence (GW-24 to GW-26)


def _evidence(step: Step, state: Map, settled: list[Settlement]) -> Iterator[Finding]:
    """A step is confirmed by a call at the block in which its transaction landed. If none of this
    record's has landed: at the policy's depth, or where a quote found the step done."""
    before: Map = {} if step.before is None else step.before["progress"]
    progress = state["progress"]
    if progress["arweave_confirmed"] and not before.get("arweave_confirmed"):
        problem = _upload_problem(step.answer, progress)
        if problem:
            yield _finding("no_evidence", step, state, problem)
    for each in tx_steps(state):
        prefix = progress_of(each)
        if progress[f"{prefix}_confirmed"] and not before.get(f"{prefix}_confirmed"):
            hash = progress[f"{prefix}_tx_hash"]
            problem = _call_problem(step.answer, state, hash, settled, step.seq)
            if problem:
                yield Finding(
                    law="no_evidence", key=step.key, step=each, seq=step.seq, message=problem
                )


def _upload_problem(answer: Answer | None, progress: Map) -> str | None:
    if answer is None or answer.intent.effect != "arweave/status@1" or answer.status != "ok":
        return "the upload is confirmed without an answer of arweave/status@1"
    fate = answer.payload["fate"]
    if tag(fate) != "Confirmed" or fate["$value"]["content"] != progress["evidence"]:
        return f"the upload is confirmed by {fate}"
    if answer.intent.params["item"] != progress["arweave_tx_id"]:
        return "the upload that is confirmed is another one"
    return None


def _call_problem(
    answer: Answer | None, state: Map, hash: str | None, settled: list[Settlement], seq: int
) -> str | None:
    if answer is None or answer.intent.effect != "evm/call@1" or answer.status != "ok":
        return "the step is confirmed without an answer of evm/call@1"
    if tag(answer.payload["result"]) != "Returned":
        return "the step is confirmed by a call that reverted"
    block = answer.intent.params["block"]
    conf = state["policy"]["conf"]
    told = [each.outcome for each in settled if each.seq < seq]
    landed = [each["$value"] for each in told if tag(each) == "Confirmed"]
    if hash is not None:
        expected = [_at(each["block"]) for each in landed if each["hash"] == hash]
    else:
        expected = [{"$tag": "Depth", "$value": conf} if conf else {"$tag": "Finalized"}]
        expected += [_at(each["$value"]["block"]) for each in told if tag(each) == "Done"]
    return None if block in expected else f"the step is confirmed with a call at {block}"


def _at(block: int) -> Map:
    return {"$tag": "Number", "$value": block}

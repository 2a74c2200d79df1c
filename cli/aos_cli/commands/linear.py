"""``aos linear``: instances of linear step plans (spec/cli.md, C-95 to C-98)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from aos.errors import BadUsage, Refused
from aos.read.lens.words import SECOND, compact, count, span_text
from aos.read.operations.linear_reads import (
    READ_LINEAR_COUNTS,
    READ_LINEAR_INSTANCE,
    READ_LINEAR_INSTANCES,
    READ_PLANS,
)
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli.linear_world import LinearWorld, read_context
from aos_cli.options import (
    DEFAULT_WORLD,
    Json,
    NodeUrl,
    WaitTimeout,
    World,
    argument,
    flag,
    number,
    option,
)
from aos_cli.output import line, note, print_json
from aos_cli.reading_command import counted_list, printed

FOR_EVER_S: Final = 100 * 365 * 86_400.0
PLAN_BYTES_MAX: Final = 1 << 20
_COMPLETED: Final = "COMPLETED"

Id = Annotated[str, argument("INSTANCE", "The id of the instance.")]


def start(
    plan: Annotated[str | None, argument("[PLAN]", "The type of a plan in force.")] = None,
    *,
    id: Annotated[str, option("ID", "The id of the instance.")],
    biz_key: Annotated[
        str | None, option("KEY", "A business key; one running instance at most has it.")
    ] = None,
    context: Annotated[str, option("JSON", "The context, an object.")] = "{}",
    version: Annotated[
        int | None, option("N", "This version of the plan (default: the newest).", parser=number)
    ] = None,
    plan_file: Annotated[
        Path | None, option("FILE", "A plan as a manifest has it, in JSON.", "--plan")
    ] = None,
    mode: Annotated[
        str,
        option(
            "MODE", "standard (default), or source: without what AOS adds to the original rules."
        ),
    ] = "standard",
    wait: Annotated[bool, flag("--wait", "Wait until the instance has ended.")] = False,
    timeout: WaitTimeout = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if (plan is None) == (plan_file is None):
        raise BadUsage("linear start: expected either PLAN or --plan FILE")
    if mode not in ("standard", "source"):
        raise BadUsage(f"--mode: expected standard or source, found {mode!r}")
    if timeout is not None and not wait:
        raise BadUsage("linear start: --timeout goes with --wait")
    linear = LinearWorld(world, node)
    plan_or_type = plan if plan_file is None else _plan(plan_file)
    assert plan_or_type is not None
    sent_event = linear.start(
        plan_or_type, id, read_context(_json(context, "--context")),
        version=version, biz_key=biz_key, mode=mode,
    )  # fmt: skip
    if not sent_event.is_run:
        if json:
            print_json(sent_event.document)
        else:
            line(f"{id} is record {sent_event.seq:,}")
            note("no process runs this world: the instance starts when one does (aos node)")
        return 0
    if wait:
        linear.wait(id, FOR_EVER_S if timeout is None else timeout / SECOND)
    instance = linear.instance(id)
    _show(instance, json=json)
    return 0 if not wait or instance["status"] == _COMPLETED else Refused.exit_code


def wake(
    instance: Id,
    type: Annotated[str, argument("TYPE", "The type of the signal.")],
    *,
    event_id: Annotated[
        str, option("ID", "Its id: a signal with an id that came before has no effect.")
    ],
    payload: Annotated[str, option("JSON", "The input of the handler (default: null).")] = "null",
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    payload_value: Any = _json(payload, "--payload")
    _send_event(
        LinearWorld(world, node), instance, "wake", (type, event_id, payload_value), json=json
    )


def cancel(
    instance: Id,
    *,
    reason: Annotated[str, option("TEXT", "The reason, which the instance keeps.")] = "",
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    _send_event(LinearWorld(world, node), instance, "cancel", (reason,), json=json)


def _send_event(
    linear: LinearWorld, instance: str, method: str, arguments: tuple[Any, ...], *, json: bool
) -> None:
    sent_event = getattr(linear, method)(instance, *arguments)
    if not sent_event.is_run:
        if json:
            print_json(sent_event.document)
            return
        line(f"record {sent_event.seq:,}")
        note("no process runs this world: the instance takes it when one does (aos node)")
        return
    _show(linear.instance(instance), json=json)


def _show(instance: Mapping[str, Any], *, json: bool) -> None:
    if json:
        print_json(instance)
    else:
        _show_instance(instance)


def _show_instance(instance: Mapping[str, Any]) -> None:
    line(f"instance  {instance['instance']}", style="bold")
    line(f"plan      {instance['plan']} version {instance['version']}")
    if instance["biz_key"] is not None:
        line(f"key       {instance['biz_key']}")
    line(f"status    {instance['status']}")
    line(f"next      {instance['next']}")
    if instance["cancel_reason"]:
        line(f"reason    {instance['cancel_reason']}")
    line(f"context   {compact(instance['context'])}")
    for entry in instance["steps"]:
        line(_step(entry))
    for entry in instance["buffered"]:
        line(f"signal    {entry['type']} {entry['event_id']} waits for its plan step")


def _step(step: Mapping[str, Any]) -> str:
    text = f"  {step['seq']:>3}  {step['step']}  {step['status']}"
    if step["attempts"] or step["status"] not in ("PENDING", "DONE"):
        text += f"  {step['attempts']} of {step['max_attempts']} attempts failed"
    if step["locked_by"] is not None:
        text += f"  {step['locked_by']} until {step['locked_until']}"
    if step["waiting_event_type"] is not None:
        text += f"  waits for {step['waiting_event_type']}"
    if step["deadline_at"] is not None:
        text += f" until {step['deadline_at']}"
    if step["last_error"] is not None:
        text += f"  {step['last_error']}"
    return text


def _row(row: Mapping[str, Any]) -> str:
    text = f"{row['instance']}  {row['plan']}@{row['version']}  {row['status']}"
    if row["status"] == "RUNNING":
        text += f"  {row['step']} {row['step_status']}: {row['next']}"
    if row["last_error"] is not None:
        text += f"  ({row['last_error']})"
    return text


def _policy(step: Mapping[str, Any]) -> str:
    parts = []
    if "max_attempts" in step:
        parts.append(count(step["max_attempts"], "attempt"))
    if "backoff_ms" in step:
        parts.append(f"backoff {span_text(step['backoff_ms'] * 10**6)}")
    if "lease_ms" in step:
        parts.append(f"lease {span_text(step['lease_ms'] * 10**6)}")
    return f"  ({', '.join(parts)})" if parts else ""


def _json(text: str, source: str) -> object:
    try:
        return parse_json(text, max_bytes=PLAN_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{source}: {problem}") from problem


def _plan(file: Path) -> Mapping[str, Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: the plan cannot be read: {error}") from error
    plan = _json(text, str(file))
    if not isinstance(plan, Mapping):
        raise BadUsage(f"{file}: expected a plan, an object with type, version and steps")
    return plan


def _show_list(document: Mapping[str, Any]) -> None:
    for row in document["instances"]:
        line(_row(row))
    note(f"{count(document['total'], 'instance')}, {len(document['instances']):,} shown")


def _show_plans(document: Mapping[str, Any]) -> None:
    for plan in document["plans"]:
        timeouts = "" if plan.get("wait_timeouts", True) else ", without timeouts of waits"
        line(f"{plan['type']} version {plan['version']}{timeouts}", style="bold")
        for seq, step in enumerate(plan["steps"]):
            line(f"  {seq}  {step['type']}{_policy(step)}")
    if not document["plans"]:
        note("the manifest in force has no plans (plans in the manifest)")


list_instances = counted_list(READ_LINEAR_INSTANCES, READ_LINEAR_COUNTS, _show_list, "instance")
show = printed(READ_LINEAR_INSTANCE, _show_instance)
plans = printed(READ_PLANS, _show_plans)

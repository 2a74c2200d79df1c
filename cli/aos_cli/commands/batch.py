"""``aos batch``: a command or an event for each of many cells (spec/cli.md, C-106 to C-108)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.errors import BadUsage, Refused, Unavailable
from aos.node.batches.batch import CANCEL_EFFECTS, DONE, RUNNING, SEND_EVENTS
from aos.read.lens.words import compact, count
from aos.read.operations.batch_reads import READ_BATCH, READ_BATCHES
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli.options import (
    DEFAULT_WORLD,
    Condition,
    Json,
    NodeUrl,
    World,
    argument,
    client_of,
    flag,
    option,
)
from aos_cli.output import line, note, print_json
from aos_cli.reading_command import ReadingCall, printed, reading
from aos_cli.world_reading import NodeReading

VALUE_BYTES_MAX: Final = 1 << 20
LOOK_S: Final = 0.2
RETRY_S: Final = 5.0
REFUSALS_SHOWN: Final = 10

Workflow = Annotated[
    str | None, option("NAME", "Only cells of this workflow, or of a unique part of it.")
]
Rate = Annotated[
    str | None,
    option("N/UNIT", "Maximum rate, per second, minute or hour: 50/s (default: no limit)."),
]
DryRun = Annotated[bool, flag("--dry-run", "Count the cells and show the first; change nothing.")]
BatchId = Annotated[str | None, option("ID", "Id of the batch (default: a random one).")]
Wait = Annotated[bool, flag("--wait", "Wait until the batch has ended.")]
Id = Annotated[str, argument("ID", "The id of the batch.")]


def _acting(action: str) -> Callable[..., int]:
    """Make the command that starts batches of one action on cells: all have the same options."""

    def act(
        *,
        workflow: Workflow = None,
        where: Condition = None,
        rate: Rate = None,
        dry_run: DryRun = False,
        id: BatchId = None,
        wait: Wait = False,
        node: NodeUrl = None,
        world: World = DEFAULT_WORLD,
        json: Json = False,
    ) -> int:
        order = {"action": action, "workflow": workflow, "where": where, "rate": rate}
        return _begin(order, node or str(world), id=id, is_dry=dry_run, wait=wait, json=json)

    return act


retry = _acting(RETRY)
skip = _acting(SKIP)
unpin = _acting(UNPIN)


def cancel_effects(
    *,
    workflow: Workflow = None,
    where: Condition = None,
    effect: Annotated[str | None, option("NAME", "Only effects of this name.")] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    id: BatchId = None,
    wait: Wait = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    order = {
        "action": CANCEL_EFFECTS, "workflow": workflow, "where": where, "effect": effect,
        "rate": rate,
    }  # fmt: skip
    return _begin(order, node or str(world), id=id, is_dry=dry_run, wait=wait, json=json)


def send(
    schema: Annotated[str, argument("SCHEMA", "The schema of the event.")],
    value: Annotated[
        str, argument("VALUE", 'The event as JSON. {"$cell": "key"} in it is the cell\'s key.')
    ],
    *,
    workflow: Annotated[str, option("NAME", "The workflow of the cells, or a part of its name.")],
    where: Condition = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    id: BatchId = None,
    wait: Wait = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    try:
        event = parse_json(value, max_bytes=VALUE_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"VALUE: {problem}") from problem
    order = {
        "action": SEND_EVENTS, "workflow": workflow, "where": where, "event": schema,
        "value": event, "rate": rate,
    }  # fmt: skip
    return _begin(order, node or str(world), id=id, is_dry=dry_run, wait=wait, json=json)


@reading(READ_BATCH)
def show(call: ReadingCall, *, wait: Wait = False) -> int:
    return _end(call.document, wait=wait, json=call.json)


def stop(id: Id, *, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    with client_of(node or str(world)) as client:
        batch = client.batch("/stop", id=id)
    _show(batch, json=json)


def _begin(
    order: Mapping[str, object],
    node: str,
    *,
    id: str | None,
    is_dry: bool,
    wait: bool,
    json: bool,
) -> int:
    if is_dry and (wait or id is not None):
        raise BadUsage("batch: --dry-run begins no batch, so it goes without --id and --wait")
    body = {**order, "id": None if is_dry else id or f"b-{secrets.token_hex(6)}"}
    batch = _request_batch(node, {**body, "dry_run": is_dry or None})
    if is_dry:
        _show_first(batch, json=json)
        return 0
    world = NodeReading(node)
    return _end(lambda: world.document(READ_BATCH, {"id": batch["id"]}), wait=wait, json=json)


def _request_batch(node: str, body: Mapping[str, object]) -> Mapping[str, Any]:
    """Send the request, again under the same id while the node is away for a moment."""
    until_s = time.monotonic() + RETRY_S
    while True:
        try:
            with client_of(node) as client:
                return client.batch("", **body)
        except Unavailable:
            if time.monotonic() >= until_s:
                raise
            time.sleep(LOOK_S)


def _end(read: Callable[[], Mapping[str, Any]], *, wait: bool, json: bool) -> int:
    """Show a batch, with ``wait`` once it has ended; 1 if that was not with every item done."""
    batch = read()
    while wait and batch["status"] == RUNNING:
        time.sleep(LOOK_S)
        batch = read()
    _show(batch, json=json)
    is_good = batch["status"] == DONE and not batch["refused"]
    return Refused.exit_code if wait and not is_good else 0


def _show_list(document: Mapping[str, Any]) -> None:
    for batch in document["batches"]:
        line(f"{batch['id']}  {_words(batch)}  {_counts(batch)}")
    number = len(document["batches"])
    note("1 batch" if number == 1 else f"{number:,} batches")


def _show_first(preview: Mapping[str, Any], *, json: bool) -> None:
    if json:
        print_json(preview)
        return
    for target in preview["first"]:
        line(_item(target))
    if (remaining := preview["total"] - len(preview["first"])) > 0:
        line(f"and {remaining:,} more")
    note(f"{count(preview['total'], 'item')}; nothing was changed (without --dry-run it begins)")


def _show(batch: Mapping[str, Any], *, json: bool) -> None:
    if json:
        print_json(batch)
        return
    line(f"batch   {batch['id']}", style="bold")
    line(f"does    {_words(batch)}")
    line(f"status  {_counts(batch)}")
    if batch["problem"] is not None:
        line(f"        {batch['problem']}")
    for refusal in batch["refusals"][:REFUSALS_SHOWN]:
        line(f"  {_item(refusal)}: {refusal['detail']}")
    if (remaining := batch["refused"] - min(len(batch["refusals"]), REFUSALS_SHOWN)) > 0:
        line(f"  and {remaining:,} more were refused")


def _item(target: Mapping[str, Any]) -> str:
    text = f"{target['workflow']} {compact(target['key'])}"
    intent = target.get("intent")
    return text if intent is None else f"{text}  effect {intent[7:19]}"


def _words(batch: Mapping[str, Any]) -> str:
    parts = [batch["action"]]
    if "event" in batch:
        parts.append(f"{batch['event']} {compact(batch.get('value'))}")
    parts += [
        f"{name} {batch[name]}" for name in ("effect", "workflow", "where", "rate") if name in batch
    ]
    return ", ".join(parts)


def _counts(batch: Mapping[str, Any]) -> str:
    text = f"{batch['status']}: {batch['done']:,} of {batch['total']:,} done"
    if batch["refused"]:
        text += f", {batch['refused']:,} refused"
    return text


list_batches = printed(READ_BATCHES, _show_list)

"""``/v1/batches``: begin, list, show and stop batches (spec/batch.md, BA-1 to BA-3, BA-7)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aos.core.decide.admit import admit_event
from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.identity import ENTROPY_BYTES
from aos.core.journal.records import Stamp
from aos.errors import excerpt
from aos.host.door.writer import spell
from aos.node.batches.batch import (
    CANCEL_EFFECTS,
    SEND_EVENTS,
    BatchItem,
    BatchJob,
    BatchOrder,
    digest_of_items,
    order_query,
)
from aos.node.batches.batch_runner import PLACEHOLDER, RUNNING_MAX, Batches, event_item
from aos.node.calls import ApiCall, ApiReply
from aos.node.events import event_not_allowed
from aos.node.operating import must_sign
from aos.node.problems import Problem, refused
from aos.node.rates import EXAMPLES, interval_of
from aos.node.reading import LIST_BATCH_ITEMS
from aos.node.services import Services
from aos.node.work_requests import not_ready
from aos.read.lens.words import as_json

FIRST_SHOWN: Final = 10
"""Items that a dry run names."""


_OF_ALL_CELLS: Final = (
    Rule.WORLD_HAS_NO_MANIFEST,
    Rule.EVENT_SCHEMA_IS_UNKNOWN,
    Rule.EVENT_IS_INTERNAL,
    Rule.EVENT_IS_INVALID,
)
"""Refusals of the first cell's event that all others would get, too."""


async def begin_batch(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/batches``: list the items, then begin; or with ``dry_run`` only count them."""
    batches = await _batches(services)
    body = {**call.body}
    is_dry = body.pop("dry_run", False)
    id = body.pop("id", None) or f"b-{secrets.token_hex(6)}"
    order = _order(call, body)
    if not is_dry:
        if order.action != SEND_EVENTS:
            must_sign(services)
        earlier = batches.get(id)
        if earlier is not None:
            return _repeated_answer(earlier, order)
        if batches.in_progress >= RUNNING_MAX:
            raise Problem(
                429, "too_many_batches",
                f"{RUNNING_MAX} batches are in progress (wait for one, or stop one)",
                retry_after_s=5,
            )  # fmt: skip
    await services.follower.advance_to()
    seq = services.follower.seq
    query = {**order_query(order), "aliases": services.index.settings}
    if services.is_replica:
        query["at"] = seq  # so that any node lists the same items (CL-336)
    document = await services.readers.document(LIST_BATCH_ITEMS.name, query, None)
    lines = document["items"]
    batch = BatchJob(
        id=id, order=order, created_ns=time.time_ns(), token=call.caller.name,
        total=len(lines), seq=seq,
    )  # fmt: skip
    if services.is_replica:
        batch = replace(batch, listed=seq, items_digest=digest_of_items(lines))
    _check_event(services, batch, lines)
    if is_dry:
        first = [_item_document(services, BatchItem.from_line(line)) for line in lines]
        return ApiReply(document={"total": len(lines), "first": first[:FIRST_SHOWN]})
    batches.check(batch)
    if (earlier := batches.get(id)) is not None:  # sent again while its cells were listed
        return _repeated_answer(earlier, order)
    try:
        await batches.begin(batch, lines)
    except OSError as error:
        raise Problem(
            503, "no_room",
            f"the batch was not begun, because it cannot be kept: {error.strerror} (make room on "
            "the disk, and send it again)", retry_after_s=5,
        ) from error  # fmt: skip
    return ApiReply(document=batches.all()[0].to_document())


async def read_batches(services: Services, _: ApiCall) -> ApiReply:
    """``GET /v1/batches``."""
    batches = await _batches(services)
    return ApiReply(
        document={"batches": [batch.to_document(is_long=False) for batch in batches.all()]}
    )


async def read_batch(services: Services, call: ApiCall) -> ApiReply:
    """``GET /v1/batch``."""
    batches = await _batches(services)
    return ApiReply(document=_existing_batch(batches, call.query["id"]).to_document())


async def stop_batch(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/batches/stop``: answered once nothing of it is in progress."""
    batches = await _batches(services)
    _existing_batch(batches, call.body["id"])
    batch = await batches.stop(call.body["id"])
    return ApiReply(document=batch.to_document())


async def _batches(services: Services) -> Batches:
    if services.batches is None:
        raise not_ready(services)
    await services.batches.has_loaded.wait()
    return services.batches


def _existing_batch(batches: Batches, id: str) -> BatchJob:
    batch = batches.get(id)
    if batch is None:
        raise Problem(404, "batch_is_unknown", f"there is no batch {excerpt(id)}")
    return batch


def _repeated_answer(earlier: BatchJob, order: BatchOrder) -> ApiReply:
    """The answer to a request that was sent again."""
    if earlier.order != order:
        raise Problem(
            409,
            "batch_exists",
            f"{earlier.id} is another batch (an id names one: choose a new one)",
        )
    return ApiReply(document=earlier.to_document())


def _order(call: ApiCall, body: Mapping[str, Any]) -> BatchOrder:
    order = BatchOrder(**body)
    is_event = order.action == SEND_EVENTS
    if is_event and (order.event is None or order.workflow is None):
        raise _invalid("send: expected event and workflow")
    if not is_event and (order.event is not None or order.value is not None):
        raise _invalid(f"{order.action}: event and value belong to send")
    if order.effect is not None and order.action != CANCEL_EFFECTS:
        raise _invalid(f"{order.action}: effect belongs to cancel-effects")
    if order.action == CANCEL_EFFECTS and order.workflow is order.where is order.effect is None:
        raise _invalid("cancel-effects: expected at least one of workflow, where and effect")
    if order.rate is not None and interval_of(order.rate) is None:
        raise _invalid(f"rate: expected {EXAMPLES}, found {order.rate!r}")
    if is_event:
        _check_placeholders(order.value, "value")
        assert order.event is not None
        problem = event_not_allowed(call.caller, order.event, order.value)
        if problem is not None:
            raise problem
    return order


def _check_placeholders(value: object, path: str) -> None:
    if isinstance(value, dict):
        if PLACEHOLDER in value and value != {PLACEHOLDER: "key"}:
            raise _invalid(f'{path}: expected {{"{PLACEHOLDER}": "key"}} and nothing else')
        for name, element in value.items():
            _check_placeholders(element, f"{path}.{name}")
    elif isinstance(value, list):
        for index, element in enumerate(value):
            _check_placeholders(element, f"{path}[{index}]")


def _invalid(detail: str) -> Problem:
    return Problem(400, "body_is_invalid", detail)


def _check_event(services: Services, batch: BatchJob, lines: list[str]) -> None:
    """Refuse an event that does not fit its schema with the key of the first cell."""
    if batch.order.action != SEND_EVENTS or not lines:
        return
    item = BatchItem.from_line(lines[0])
    key = _item_document(services, item)["key"]
    manifest = services.follower.state.manifest
    event = spell(event_item(batch, item, key), manifest)
    if not isinstance(event, Refusal):
        stamp = Stamp(ns=services.follower.state.clock_ns, entropy=bytes(ENTROPY_BYTES))
        read = services.follower.store.blob
        answer = admit_event(services.follower.state, event, stamp, read)
    else:
        answer = event
    if isinstance(answer, Refusal) and answer.rule in _OF_ALL_CELLS:
        raise refused(answer, manifest)


def _item_document(services: Services, item: BatchItem) -> dict[str, Any]:
    manifest = services.follower.state.manifest
    workflow = manifest.workflows.get(item.cell[0]) if manifest else None
    key = as_json(workflow.key if workflow else None, item.cell[1]) if item.cell[1] else None
    document: dict[str, Any] = {"workflow": item.cell[0], "key": key}
    if item.intent is not None:
        document["intent"] = f"blake3:{item.intent.hex()}"
    return document

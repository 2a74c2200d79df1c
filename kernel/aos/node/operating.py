"""Commands, modules and snapshots over HTTP (spec/node-api.md, N-118)."""

from __future__ import annotations

import json
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.inputs import ControlInput
from aos.core.journal.records import CellId
from aos.core.state.continuation import EFFECT_ERROR
from aos.errors import BadUsage
from aos.manifest.sealed_places import sealing_problem
from aos.node.calls import ApiCall, ApiReply
from aos.node.problems import Problem
from aos.node.refusals import problem_of, refused
from aos.node.services import Services
from aos.read.lens.lookup import find_cell
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem

WASM_MAGIC: Final = b"\x00asm"
_SIGNED: Final = ("principal", "serial", "signature")


async def send_command(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/commands``: signed by the caller, or by the kernel process."""
    body: dict[str, Any] = call.body
    signed = is_signed(services, body)
    fields: dict[str, Any] = {
        "cell": await _cell(services, body),
        "intent": hash_named(body.get("intent")),
        "value": hash_named(body.get("value")),
        "status": body.get("status"),
        "payload": await _payload(services, body),
    }
    reason = body.get("why")
    if signed:
        control_input = ControlInput(
            action=body["action"],
            principal=body["principal"],
            serial=body["serial"],
            signature=body["signature"],
            restamp=True if body.get("restamp") else None,
            why=reason,
            **fields,
        )
        answer = await services.link.control(control_input)
    else:
        answer = await services.link.operate(body["action"], reason=reason, **fields)
    return ApiReply(document=admitted(services, answer))


def is_signed(services: Services, body: dict[str, Any]) -> bool:
    """Whether the caller has signed a command; if not, the kernel process must have a key.

    Raises:
        Problem: A part of the signature is missing (400), or no one signs (403).
    """
    signed = [name for name in _SIGNED if name in body]
    if signed and len(signed) < len(_SIGNED):
        raise Problem(
            400, "body_is_invalid",
            f"body: expected principal, serial and signature together, found only "
            f"{' and '.join(signed)}",
        )  # fmt: skip
    if not signed and "restamp" in body:
        raise Problem(
            400, "body_is_invalid",
            "restamp: expected only in a command with principal, serial and signature (the node "
            "restamps each retry and skip that it signs)",
        )  # fmt: skip
    if not signed:
        must_sign(
            services,
            "expected principal, serial and signature (or start it with --operator-key FILE)",
        )
    return bool(signed)


def must_sign(services: Services, hint: str = "start it with --operator-key FILE") -> None:
    """Raises: Problem: 403; the kernel process has no key of an operator."""
    if not services.has_operator_key:
        raise Problem(
            403, "command_is_not_signed",
            f"this node signs no commands: {hint}",
        )  # fmt: skip


async def _cell(services: Services, body: dict[str, Any]) -> CellId | None:
    """The cell that a command names. Raises Problem (404) if no workflow fits."""
    if "workflow" not in body:
        return None
    await services.follower.advance_to()
    key = None if body.get("key") is None else json.dumps(body["key"], ensure_ascii=False)
    try:
        return find_cell(services.follower.state, body["workflow"], key)
    except BadUsage as problem:
        raise problem_of(problem, services.folder.path, unknown=404) from None


async def _payload(services: Services, body: dict[str, Any]) -> bytes | None:
    """The receipt that settles an effect, as CBOR.

    Raises:
        Problem: It is given twice (400), or does not fit the effect (422).
    """
    if "payload" not in body:
        payload_cbor: bytes | None = body.get("payload_cbor")
        return payload_cbor
    if "payload_cbor" in body:
        raise Problem(
            400, "body_is_invalid", "body: expected at most one of payload and payload_cbor"
        )
    await services.follower.advance_to()
    state = services.follower.state
    intent = hash_named(body.get("intent"))
    open_intent = None if intent is None else state.intents.get(intent)
    if open_intent is None:
        return encode(None)  # the world refuses the command for its intent
    schema = open_intent.effect.receipt if body.get("status") == "ok" else EFFECT_ERROR
    try:
        if state.manifest is not None and schema.name in state.manifest.sealing:
            problem = sealing_problem(schema, body["payload"], state.manifest.schemas)
            if problem is not None:
                raise problem
        return schema.encode(schema.from_json_object(body["payload"]))
    except ValueProblem as problem:
        misfit = Refusal(
            rule=Rule.SETTLEMENT_DOES_NOT_FIT, message=f"payload: {schema.name}: {problem}"
        )
        raise refused(misfit, state.manifest) from problem


def hash_named(text: str | None) -> Hash | None:
    """A hash in a body, with or without its prefix, as the schema takes it."""
    return None if text is None else Hash(bytes.fromhex(text.removeprefix("blake3:")))


def admitted(services: Services, answer: Answer) -> dict[str, Any]:
    """Return the effects of a command that was admitted. Raises: Problem: It is refused."""
    if isinstance(answer, Refusal):
        raise refused(answer, services.follower.state.manifest)
    document: dict[str, Any] = {"seq": answer.seq}
    if isinstance(answer, Admitted):
        document |= {"dropped": answer.dropped, "abandoned": answer.abandoned}
    return document


async def stage_module(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/modules``: keep a module for the manifest that is sent next."""
    if not call.body.startswith(WASM_MAGIC):
        raise Problem(
            422, "module_is_invalid",
            f"expected a WASM module, found {len(call.body):,} bytes of something else",
        )  # fmt: skip
    module = services.staged.add(call.body)
    return ApiReply(document={"module": hash_text(module), "kept": len(services.staged)})


async def make_snapshot(services: Services, _: ApiCall) -> ApiReply:
    """``POST /v1/snapshots``."""
    snapshot = await services.link.snapshot()
    return ApiReply(document={**snapshot.to_message(), "document": hash_text(snapshot.document)})

"""Commands, modules, snapshots and manifests over HTTP; manifests are proposed and voted on, tried,
and put in force (spec/node-api.md, N-118, N-118d).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.decide.approved import open_proposal
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import STRICT, ControlInput, ManifestInput
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import VOTES
from aos.core.state.continuation import EFFECT_ERROR
from aos.errors import BadUsage, Damage
from aos.manifest.judging import judge
from aos.manifest.patching import patch_between
from aos.manifest.sealed_places import sealing_problem
from aos.node.calls import ApiCall, ApiReply
from aos.node.problems import Problem, problem_of, refused
from aos.node.services import Services
from aos.read.lens.lookup import find_cell
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
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


async def apply_manifest(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/manifests``: signed by the caller, or by the kernel process."""
    signed = is_signed(services, call.body)
    body = await proposed(services, call.body)
    hashes = hashes_named(body)
    modules, mode, leaves = (
        services.staged.modules_of(hashes),
        body.get("mode", STRICT),
        tuple(body.get("leaves", ())),
    )
    if not body.get("allow_diverged", False):
        await services.trials.check(body["document"], modules)
    if signed:
        manifest_input = ManifestInput(
            document=body["document"],
            principal=body["principal"],
            serial=body["serial"],
            signature=body["signature"],
            mode=mode,
            leaves=leaves,
            proposal=body.get("proposal"),
        )
        answer = await services.link.apply(manifest_input, modules)
    else:
        answer = await services.link.apply_here(
            body["document"], modules, mode=mode, leaves=leaves, proposal=body.get("proposal")
        )
    document = admitted(services, answer)
    services.staged.forget(hashes)
    return ApiReply(
        document={"seq": document["seq"], "manifest": hash_text(content_hash(body["document"]))}
    )


async def try_manifest(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/manifests/try``: a dry run."""
    body = await proposed(services, call.body)
    hashes = hashes_named(body)
    report = await services.trials.report(
        body["document"],
        services.staged.modules_of(hashes),
        mode=body.get("mode", STRICT),
        leave_cells=body.get("leave_cells", False),
        show=body.get("show", 0),
    )
    return ApiReply(document=report)


async def govern(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/governance``: a proposal, report, vote or withdrawal, signed by the caller or,
    unless it is a vote, by the kernel process (N-118d)."""
    body: dict[str, Any] = call.body
    signed = _is_signed_by_caller(services, body)
    if body["action"] == PROPOSE and not signed:
        body = await _with_patch(services, body)
    hashes = hashes_named(body)
    governance_input = GovernanceInput(
        action=body["action"],
        principal=body.get("principal", ""),
        signature=body.get("signature", b""),
        proposal=body.get("proposal"),
        serial=body.get("serial"),
        base=hash_named(body.get("base")),
        document=body.get("document"),
        patch=body.get("patch"),
        mode=body.get("mode", STRICT),
        leaves=tuple(body.get("leaves", ())),
        report=body.get("report"),
        seen=hash_named(body.get("seen")),
        note=body.get("note"),
    )
    submit = services.link.govern if signed else services.link.govern_here
    document = admitted(
        services, await submit(governance_input, services.staged.modules_of(hashes))
    )
    services.staged.forget(hashes)
    return ApiReply(document={"seq": document["seq"]})


def _is_signed_by_caller(services: Services, body: Mapping[str, Any]) -> bool:
    """Whether the caller has signed; if not, the kernel process must have a key, and no vote is
    its own (GV-22).

    Raises:
        Problem: Half of a signature is there (400), or no one may sign (403).
    """
    signed = [name for name in ("principal", "signature") if name in body]
    if len(signed) == 1:
        raise Problem(
            400, "body_is_invalid",
            f"body: expected principal and signature together, found only {signed[0]}",
        )  # fmt: skip
    if signed:
        return True
    if body["action"] in VOTES:
        raise Problem(
            403, "command_is_not_signed",
            "a vote needs the principal and the signature of its approver (aos gov approve, with "
            "--key FILE, signs it)",
        )  # fmt: skip
    must_sign(services, "expected principal and signature (or start it with --operator-key FILE)")
    return False


async def _with_patch(services: Services, body: Mapping[str, Any]) -> dict[str, Any]:
    """A proposal with the patch from the manifest in force, if the caller sent none.

    Raises:
        Problem: The document is no manifest (422).
    """
    await services.follower.advance_to()
    in_force = services.follower.state.manifest
    if in_force is None or "document" not in body or "patch" in body:
        return dict(body)
    try:
        patch = patch_between(in_force, judge(body["document"]))
    except Damage as problem:
        raise Problem(422, "manifest_is_invalid", str(problem)) from problem
    return {**body, "base": hash_text(patch.base), "patch": patch.document}


async def proposed(services: Services, body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of ``/v1/manifests`` whose document, mode and leaves are those of the open proposal
    that it names, if it names one.

    Raises:
        Problem: It names a proposal and a document, or none of the two (400); the proposal is
            unknown (404) or closed (409).
    """
    if ("proposal" in body) == ("document" in body):
        raise Problem(400, "body_is_invalid", "body: expected one of document and proposal")
    if "document" in body:
        return dict(body)
    extra_names = [name for name in ("mode", "leaves", "leave_cells", "modules") if name in body]
    if extra_names:
        raise Problem(
            400,
            "body_is_invalid",
            f"body: expected no {extra_names[0]}: it is that of the proposal",
        )
    await services.follower.advance_to()
    proposal = open_proposal(services.follower.state, body["proposal"])
    if isinstance(proposal, Refusal):
        raise refused(proposal, services.follower.state.manifest)
    document = await services.read(lambda view: view.journal.blob(proposal.document.hash))
    return {
        **body,
        "document": document,
        "mode": proposal.mode or STRICT,
        "leaves": list(proposal.leaves),
        "leave_cells": bool(proposal.leaves),
    }


def hashes_named(body: Mapping[str, Any]) -> list[Hash]:
    """The modules that a body names."""
    return [hash for module in body.get("modules", ()) if (hash := hash_named(module)) is not None]

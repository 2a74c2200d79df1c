"""Manifests over HTTP: proposed and voted on, tried, and put in force (spec/node-api.md, N-118,
N-118d)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aos.core.decide.answers import Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import STRICT, ManifestInput
from aos.core.journal.vocabulary import VOTES
from aos.errors import Damage
from aos.manifest.judging import judge
from aos.manifest.patching import patch_between
from aos.node.calls import ApiCall, ApiReply
from aos.node.operating import admitted, hash_named, is_signed, must_sign
from aos.node.problems import Problem
from aos.node.refusals import refused
from aos.node.services import Services
from aos.values.digests import Hash, content_hash, hash_text


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

"""Manifests over HTTP: tried, and put in force (spec/node-api.md, N-118)."""

from __future__ import annotations

from aos.core.journal.inputs import STRICT, ManifestInput
from aos.node.calls import ApiCall, ApiReply
from aos.node.governance_requests import hashes_named, proposed
from aos.node.operating import admitted, is_signed
from aos.node.services import Services
from aos.values.digests import content_hash, hash_text


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

"""Schemas of language models, of the vault, of messages between worlds, and of AIR 2's effects for
governance, which are not built in themselves (AG-40): events may carry these values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.manifest.builtin_types import (
    BOOL,
    BYTES,
    DEC128,
    HASH,
    NAT,
    TEXT,
    UNIT,
    UUID,
    Type,
    list_of,
    map_of,
    option,
    record,
    ref,
    set_of,
    variant,
)

LLM_TYPES: Final[Mapping[str, Type]] = {
    "LlmToolChoice": variant({
        "Auto": UNIT, "None": UNIT, "Required": UNIT, "Tool": record(name=TEXT),
    }),
    "LlmRuntimeArgs": record(
        temperature=option(DEC128), top_p=option(DEC128), max_tokens=option(NAT),
        tool_refs=option(list_of(HASH)), tool_choice=option(ref("LlmToolChoice")),
        reasoning_effort=option(TEXT), stop_sequences=option(list_of(TEXT)),
        metadata=option(map_of(TEXT)), provider_options_ref=option(HASH),
        response_format_ref=option(HASH),
    ),
    "LlmToolCall": record(
        call_id=TEXT, tool_name=TEXT, arguments_ref=HASH, provider_call_id=option(TEXT),
    ),
    "LlmToolCallList": list_of(ref("LlmToolCall")),
    "LlmOutputEnvelope": record(
        assistant_text=option(TEXT), tool_calls_ref=option(HASH), reasoning_ref=option(HASH),
    ),
    "LlmTranscriptRange": record(start_seq=NAT, end_seq=NAT),
    "LlmWindowItemKind": variant({
        "MessageRef": UNIT, "AosSummaryRef": UNIT, "ProviderNativeArtifactRef": UNIT,
        "ProviderRawWindowRef": UNIT, "Custom": record(kind=TEXT),
    }),
    "LlmProviderCompatibility": record(
        provider=TEXT, api_kind=TEXT, model=option(TEXT), model_family=option(TEXT),
        artifact_type=TEXT, opaque=BOOL, encrypted=BOOL,
    ),
    "LlmWindowItem": record(
        item_id=TEXT, kind=ref("LlmWindowItemKind"), ref_=HASH, lane=option(TEXT),
        source_range=option(ref("LlmTranscriptRange")), source_refs=list_of(HASH),
        provider_compatibility=option(ref("LlmProviderCompatibility")),
        estimated_tokens=option(NAT), metadata=map_of(TEXT),
    ),
    "LlmGenerateParams": record(
        correlation_id=option(TEXT), provider=TEXT, model=TEXT,
        window_items=list_of(ref("LlmWindowItem")),
        runtime=record(
            temperature=option(DEC128), top_p=option(DEC128), max_tokens=option(NAT),
            tool_refs=option(list_of(HASH)), tool_choice=option(ref("LlmToolChoice")),
            reasoning_effort=option(TEXT), stop_sequences=option(list_of(TEXT)),
            metadata=option(map_of(TEXT)), provider_options_ref=option(HASH),
            response_format_ref=option(HASH),
        ),
        api_key=option(ref("TextOrSecretRef")),
    ),
    "LlmCompactStrategy": variant({"ProviderNative": UNIT, "AosSummary": UNIT, "Auto": UNIT}),
    "LlmTokenCountQuality": variant({
        "Exact": UNIT, "ProviderEstimate": UNIT, "LocalEstimate": UNIT, "Unknown": UNIT,
    }),
    "LlmTokenCountByRef": record(ref_=HASH, tokens=NAT, quality=ref("LlmTokenCountQuality")),
    "LlmCountTokensParams": record(
        correlation_id=option(TEXT), provider=TEXT, model=TEXT,
        window_items=list_of(ref("LlmWindowItem")), tool_definitions_ref=option(HASH),
        response_format_ref=option(HASH), provider_options_ref=option(HASH),
        rendering_profile=option(TEXT), candidate_plan_id=option(TEXT), metadata=map_of(TEXT),
        api_key=option(ref("TextOrSecretRef")),
    ),
    "LlmCountTokensReceipt": record(
        input_tokens=option(NAT), original_input_tokens=option(NAT),
        counts_by_ref=list_of(ref("LlmTokenCountByRef")), tool_tokens=option(NAT),
        response_format_tokens=option(NAT), quality=ref("LlmTokenCountQuality"), provider=TEXT,
        model=TEXT, candidate_plan_id=option(TEXT), provider_metadata_ref=option(HASH),
        warnings_ref=option(HASH),
    ),
    "LlmCompactionArtifactKind": variant({
        "AosSummary": UNIT, "ProviderNative": UNIT, "Mixed": UNIT,
    }),
    "TokenUsage": record(prompt=NAT, completion=NAT, total=option(NAT)),
    "LlmCompactParams": record(
        correlation_id=option(TEXT), operation_id=TEXT, provider=TEXT, model=TEXT,
        strategy=ref("LlmCompactStrategy"), source_window_items=list_of(ref("LlmWindowItem")),
        preserve_window_items=list_of(ref("LlmWindowItem")),
        recent_tail_items=list_of(ref("LlmWindowItem")),
        source_range=option(ref("LlmTranscriptRange")), target_tokens=option(NAT),
        provider_options_ref=option(HASH), api_key=option(ref("TextOrSecretRef")),
    ),
    "LlmCompactReceipt": record(
        operation_id=TEXT, artifact_kind=ref("LlmCompactionArtifactKind"),
        artifact_refs=list_of(HASH), source_range=option(ref("LlmTranscriptRange")),
        compacted_through=option(NAT), active_window_items=list_of(ref("LlmWindowItem")),
        token_usage=option(ref("TokenUsage")), provider_metadata_ref=option(HASH),
        warnings_ref=option(HASH), provider_id=TEXT,
    ),
    "LlmGenerateReceipt": record(
        output_ref=HASH, raw_output_ref=option(HASH), provider_response_id=option(TEXT),
        provider_context_items=list_of(ref("LlmWindowItem")),
        finish_reason=record(reason=TEXT, raw=option(TEXT)),
        token_usage=record(prompt=NAT, completion=NAT, total=option(NAT)),
        usage_details=option(record(
            reasoning_tokens=option(NAT), cache_read_tokens=option(NAT),
            cache_write_tokens=option(NAT),
        )),
        warnings_ref=option(HASH), rate_limit_ref=option(HASH), cost_cents=option(NAT),
        provider_id=TEXT,
    ),
}  # fmt: skip

VAULT_TYPES: Final[Mapping[str, Type]] = {
    "PortalSendParams": record(
        dest_universe=option(UUID), dest_world=UUID, mode=TEXT, schema=option(TEXT),
        value_cbor=option(BYTES), inbox=option(TEXT), payload_cbor=option(BYTES),
        headers=option(map_of(TEXT)), correlation_id=option(TEXT),
    ),
    "PortalSendReceipt": record(
        status=TEXT, message_id=HASH, dest_world=UUID, enqueued_seq=option(BYTES),
    ),
    "BlobEdge": record(blob_ref=HASH, refs=list_of(HASH)),
    "VaultPutParams": record(alias=TEXT, binding_id=TEXT, value_ref=HASH, expected_digest=HASH),
    "VaultPutReceipt": record(alias=TEXT, version=NAT, binding_id=TEXT, digest=HASH),
    "VaultRotateParams": record(alias=TEXT, version=NAT, binding_id=TEXT, expected_digest=HASH),
    "VaultRotateReceipt": record(alias=TEXT, version=NAT, binding_id=TEXT, digest=HASH),
    "PureContext": record(logical_now_ns=NAT, journal_height=NAT, manifest_hash=HASH, module=TEXT),
}  # fmt: skip

GOVERNANCE_TYPES: Final[Mapping[str, Type]] = {
    "GovPatchInput": variant({
        "hash": HASH, "patch_cbor": BYTES, "patch_doc_json": BYTES,
        "patch_blob_ref": record(blob_ref=HASH, format=TEXT),
    }),
    "GovPatchSummary": record(
        base_manifest_hash=option(HASH), patch_hash=HASH, ops=set_of(TEXT),
        def_changes=list_of(record(
            kind=TEXT, name=TEXT, action=variant({"added": UNIT, "removed": UNIT, "changed": UNIT}),
        )),
        manifest_sections=set_of(TEXT),
    ),
    "GovProposeParams": record(
        patch=ref("GovPatchInput"), summary=option(ref("GovPatchSummary")),
        manifest_base=option(HASH), description=option(TEXT),
    ),
    "GovProposeReceipt": record(proposal_id=NAT, patch_hash=HASH, manifest_base=option(HASH)),
    "GovShadowParams": record(proposal_id=NAT),
    "GovShadowReceipt": record(
        proposal_id=NAT, manifest_hash=HASH,
        predicted_effects=list_of(record(kind=TEXT, intent_hash=HASH, params_json=option(TEXT))),
        pending_workflow_receipts=list_of(record(
            instance_id=TEXT, origin_module_id=TEXT, origin_instance_key_b64=option(TEXT),
            intent_hash=HASH, effect=TEXT, emitted_at_seq=NAT,
        )),
        workflow_instances=list_of(record(
            instance_id=TEXT, status=TEXT, last_processed_event_seq=NAT,
            module_version=option(TEXT), inflight_intents=NAT,
        )),
        module_effect_allowlists=list_of(record(module=TEXT, effects_emitted=list_of(TEXT))),
    ),
    "GovApproveParams": record(
        proposal_id=NAT, decision=variant({"approve": UNIT, "reject": UNIT}), approver=TEXT,
        reason=option(TEXT),
    ),
    "GovApproveReceipt": record(
        proposal_id=NAT, decision=variant({"approve": UNIT, "reject": UNIT}), patch_hash=HASH,
        approver=TEXT, reason=option(TEXT),
    ),
    "GovApplyParams": record(proposal_id=NAT),
    "GovApplyReceipt": record(proposal_id=NAT, manifest_hash_new=HASH, patch_hash=HASH),
    "GovActionRequested": record(
        patch=ref("GovPatchInput"), manifest_base=option(HASH), description=option(TEXT),
    ),
}  # fmt: skip

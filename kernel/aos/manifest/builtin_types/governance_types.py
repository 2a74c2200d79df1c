"""Schemas of the effects ``sys/governance.*``, which are not built in themselves (AG-40): events
may carry these values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aos.manifest.builtin_types.type_notation import (
    BYTES,
    HASH,
    NAT,
    TEXT,
    UNIT,
    Type,
    list_of,
    option,
    record,
    ref,
    set_of,
    variant,
)

GOVERNANCE_TYPES: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "GovPatchInput": variant(
            {
                "hash": HASH,
                "patch_cbor": BYTES,
                "patch_doc_json": BYTES,
                "patch_blob_ref": record(blob_ref=HASH, format=TEXT),
            }
        ),
        "GovPatchSummary": record(
            base_manifest_hash=option(HASH),
            patch_hash=HASH,
            ops=set_of(TEXT),
            def_changes=list_of(
                record(
                    kind=TEXT,
                    name=TEXT,
                    action=variant({"added": UNIT, "removed": UNIT, "changed": UNIT}),
                )
            ),
            manifest_sections=set_of(TEXT),
        ),
        "GovProposeParams": record(
            patch=ref("GovPatchInput"),
            summary=option(ref("GovPatchSummary")),
            manifest_base=option(HASH),
            description=option(TEXT),
        ),
        "GovProposeReceipt": record(
            proposal_id=NAT,
            patch_hash=HASH,
            manifest_base=option(HASH),
        ),
        "GovShadowParams": record(proposal_id=NAT),
        "GovShadowReceipt": record(
            proposal_id=NAT,
            manifest_hash=HASH,
            predicted_effects=list_of(
                record(
                    kind=TEXT,
                    intent_hash=HASH,
                    params_json=option(TEXT),
                )
            ),
            pending_workflow_receipts=list_of(
                record(
                    instance_id=TEXT,
                    origin_module_id=TEXT,
                    origin_instance_key_b64=option(TEXT),
                    intent_hash=HASH,
                    effect=TEXT,
                    emitted_at_seq=NAT,
                )
            ),
            workflow_instances=list_of(
                record(
                    instance_id=TEXT,
                    status=TEXT,
                    last_processed_event_seq=NAT,
                    module_version=option(TEXT),
                    inflight_intents=NAT,
                )
            ),
            module_effect_allowlists=list_of(record(module=TEXT, effects_emitted=list_of(TEXT))),
        ),
        "GovApproveParams": record(
            proposal_id=NAT,
            decision=variant({"approve": UNIT, "reject": UNIT}),
            approver=TEXT,
            reason=option(TEXT),
        ),
        "GovApproveReceipt": record(
            proposal_id=NAT,
            decision=variant({"approve": UNIT, "reject": UNIT}),
            patch_hash=HASH,
            approver=TEXT,
            reason=option(TEXT),
        ),
        "GovApplyParams": record(proposal_id=NAT),
        "GovApplyReceipt": record(
            proposal_id=NAT,
            manifest_hash_new=HASH,
            patch_hash=HASH,
        ),
        "GovActionRequested": record(
            patch=ref("GovPatchInput"),
            manifest_base=option(HASH),
            description=option(TEXT),
        ),
    }
)

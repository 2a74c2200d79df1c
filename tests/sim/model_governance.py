"""Proposals, reports and votes in the naive model, written from spec/governance.md.

Whether a patch leads to a manifest is computed on the definitions and fields that authors write;
built-in definitions follow from them.
"""

from __future__ import annotations

from typing import Any, Final

from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem
from tests.sim.model import Given, Model, Record, Refused, is_signed, without_nothing
from tests.sim.naive import Manifest, cbor, content, digest, key_of, manifest_of, text_of

FORMS: Final = {
    "propose": ({"serial", "base", "document", "patch"}, {"mode", "leaves", "note"}),
    "report": ({"proposal", "report"}, {"note"}),
    "approve": ({"proposal"}, {"seen", "note"}),
    "reject": ({"proposal"}, {"seen", "note"}),
    "withdraw": ({"proposal"}, {"note"}),
}
FIELDS: Final = ("routing", "executors", "limits", "plans", "schedules", "governance")
OPEN_MOST: Final = 16
REPORTS_MOST: Final = 64
CLOSED_KEPT: Final = 256
LONGEST_REPORT: Final = 2**20


def governance_message(world: bytes, given: Given, change: Given) -> bytes:
    """J-44. ``change`` has the bytes of document and patch, or their hashes."""

    def hashed(name: str) -> bytes | None:
        found: bytes | None = change[name]
        return found if found is None or len(found) == 32 else content(found)

    mode = None if change["mode"] == "strict" else change["mode"]
    report = None if given["report"] is None else content(given["report"])
    return cbor(
        [
            "aos/governance/1", world, given["action"], given["proposal"], given["serial"],
            change["base"], hashed("document"), hashed("patch"), mode,
            list(change["leaves"]) or None, report, given["seen"], given["note"],
        ]
    )  # fmt: skip


def block_of(model: Model) -> Record | None:
    """The governance in force."""
    return None if model.manifest is None else model.manifest.governance


def governance(model: Model, given: Given, stamp: Record) -> Record | int:
    """GV-20 to GV-35."""
    block = block_of(model)
    if block is None:
        raise Refused("world_is_not_governed")
    action, proposal = given["action"], model.proposals.get(given["proposal"])
    keys = _keys(model, block, given, proposal)
    if not keys:
        raise Refused("governance_principal_is_unknown")
    if action == "propose":
        _propose(model, given, keys)
    else:
        if proposal is None:
            _not_open(model, given["proposal"])
            raise AssertionError("it is refused")
        _signed(model, given, proposal, keys)
        _form(given)
        again = _act(model, given, proposal, block)
        if again is not None:
            return again
    return _record(model, given, stamp, block)


def _keys(model: Model, block: Record, given: Given, proposal: Record | None) -> list[bytes]:
    action, who = given["action"], given["principal"]
    keys = [key_of(each["public_key"]) for each in block["approvers"] if each["name"] == who]
    if action not in ("approve", "reject") and who in model.operators:
        keys.append(model.operators[who])
    is_another = proposal is not None and proposal["principal"] != who
    return [] if action == "withdraw" and is_another else keys


def _not_open(model: Model, seq: Any) -> None:
    how = model.closed.get(seq)
    if how is None:
        raise Refused("proposal_is_unknown")
    raise Refused("proposal_is_stale" if how == "stale" else "proposal_is_closed")


def _signed(model: Model, given: Given, change: Given, keys: list[bytes]) -> None:
    message = governance_message(model.world, given, change)
    if not any(is_signed(message, given["signature"], key) for key in keys):
        raise Refused("governance_signature_is_wrong")


def _form(given: Given) -> None:
    if given["action"] not in FORMS:
        raise Refused("proposal_is_invalid")
    needed, options = FORMS[given["action"]]
    names = ("proposal", "serial", "base", "document", "patch", "report", "seen", "note")
    found = {name for name in names if given[name] is not None}
    found |= {"mode"} if given["mode"] != "strict" else set()
    found |= {"leaves"} if given["leaves"] else set()
    hashes = [given[name] for name in ("base", "seen") if given[name] is not None]
    note = given["note"]
    is_form = needed <= found <= needed | options and all(len(each) == 32 for each in hashes)
    if not is_form or (note is not None and not 0 < len(note.encode()) <= 1024):
        raise Refused("proposal_is_invalid")


def _propose(model: Model, given: Given, keys: list[bytes]) -> None:
    if given["serial"] != model.proposed:
        raise Refused("governance_serial_is_wrong")
    if any(given[name] is None for name in ("base", "document", "patch")):
        _form(given)
    _signed(model, given, given, keys)
    _form(given)
    if given["base"] != model.now.hash:
        raise Refused("proposal_is_stale")
    document = given["document"]
    if given["mode"] not in ("strict", "pin", "migrate") or content(document) == model.now.hash:
        raise Refused("proposal_is_invalid")
    try:
        new = manifest_of(document)
        fits = _result(model.now, given["patch"]) == _parts(new)
    except (ValueProblem, LookupError, TypeError, ValueError) as problem:
        raise Refused("proposal_is_invalid") from problem
    if not fits or keys_are_wrong(model, new) or leaves_are_wrong(new, list(given["leaves"])):
        raise Refused("proposal_is_invalid")
    if is_misplaced(model, new):
        raise Refused("proposal_is_invalid")
    if len(model.proposals) >= OPEN_MOST:
        raise Refused("too_many_proposals")


def keys_are_wrong(model: Model, manifest: Manifest) -> bool:
    """K-14, K-106, GV-1."""
    for name, executor in (manifest.executors or {}).items():
        keys = [executor["public_key"], *executor.get("retired_keys", ())]
        is_node = f"ed25519:{model.world_key.hex()}" == executor["public_key"]
        if (name == "node") != is_node or {key_of(each) for each in keys} & model.revoked:
            return True
    people = (manifest.governance or {}).get("approvers", ())
    theirs = {key_of(each["public_key"]) for each in people}
    return bool(theirs & (model.revoked | {model.world_key}))


def is_misplaced(model: Model, manifest: Manifest) -> bool:
    """GR-12, GR-13 of groups.md."""
    old = model.manifest
    if old is None:
        return False
    if manifest.shard != old.shard:
        return True
    return manifest.shard is not None and any(
        manifest.placement(name) != old.placement(name)
        for name in manifest.workflows
        if name in old.workflows
    )


def leaves_are_wrong(manifest: Manifest, leaves: list[str]) -> bool:
    return leaves != sorted(set(leaves)) or bool(set(leaves) & set(manifest.workflows))


Parts = tuple[dict[Any, Any], Record]


def _parts(manifest: Manifest) -> Parts:
    """The definitions and fields that its author wrote."""
    own = {key: node for key, node in manifest.nodes.items() if key[1][:4] != "sys/"}
    return own, {name: manifest.node[name] for name in FIELDS if name in manifest.node}


def _result(base: Manifest, patch: bytes) -> Parts:
    """GV-10 to GV-14: what the patch makes of the parts of ``base``."""
    found: Any = decode_record(patch)
    if found["base"] != text_of(base.hash):
        raise ValueError("of another manifest")
    own, fields = _parts(base)
    for op in found["ops"]:
        ((verb, given),) = op.items()
        if verb == "set":
            before = fields.pop(given["field"], None)
            _same(None if before is None else text_of(content(cbor(before))), given["pre_hash"])
            if given["value"] is not None:
                fields[given["field"]] = given["value"]
            continue
        node = given.get("node", given)
        subject = (node.get("$kind", node.get("kind")), node["name"])
        before = own.pop(subject, None)
        _same(None if before is None else _hash_of(before), given.get("pre_hash"))
        if verb != "remove":
            own[subject] = node
    return own, fields


def _same(found: str | None, expected: str | None) -> None:
    if found != expected:
        raise ValueError("not what is there")


def _hash_of(node: Record) -> str:
    if node["$kind"] == "defmodule":
        return str(node["runtime"]["artifact"]["hash"])
    return text_of(digest("aos/def/1", node))


def _act(model: Model, given: Given, proposal: Record, block: Record) -> int | None:
    match given["action"]:
        case "report":
            return _report(model, given, proposal)
        case "approve" | "reject":
            _vote(model, given, proposal, block)
    return None


def _report(model: Model, given: Given, proposal: Record) -> int | None:
    """GV-30, GV-31."""
    hash = content(given["report"])
    if hash in proposal["reports"]:
        return int(proposal["reports"][hash][0])
    head = _head(given["report"])
    if head is None:
        raise Refused("report_is_invalid")
    true = {
        "world": model.world, "base": proposal["base"], "document": proposal["document"],
        "mode": proposal["mode"], "leaves": list(proposal["leaves"]),
    }  # fmt: skip
    in_order = model.manifest_seq <= head["from"] <= head["to"] < model.seq
    if not in_order or any(head[name] != each for name, each in true.items()):
        raise Refused("report_is_invalid")
    if len(proposal["reports"]) >= REPORTS_MOST:
        raise Refused("too_many_reports")
    return None


def _head(report: bytes) -> Record | None:
    try:
        found: Any = decode_record(report)
    except ValueProblem:
        return None
    if len(report) > LONGEST_REPORT or not isinstance(found, dict):
        return None
    types: Record = {
        "format": str, "world": bytes, "base": bytes, "document": bytes, "mode": str,
        "leaves": list, "from": int, "to": int, "frame": bytes,
    }  # fmt: skip
    if any(type(found.get(name)) is not kind for name, kind in types.items()):
        return None
    hashes = [found[name] for name in ("world", "base", "document", "frame")]
    is_head = (
        found["format"] == "aos-shadow/1"
        and all(len(each) == 32 for each in hashes)
        and all(isinstance(each, str) for each in found["leaves"])
        and 0 < found["from"] < 2**63
        and 0 < found["to"] < 2**63
    )
    return found if is_head else None


def _vote(model: Model, given: Given, proposal: Record, block: Record) -> None:
    """GV-24, GV-32."""
    before = proposal["votes"].get(given["principal"])
    if before is not None and (before[0], given["action"]) != ("approve", "reject"):
        raise Refused("vote_is_taken")
    seen, needed = given["seen"], block.get("shadow_records", 0)
    if seen is not None and seen not in proposal["reports"]:
        raise Refused("report_is_needed")
    if given["action"] == "approve" and needed:
        head = None if seen is None else _head(proposal["reports"][seen][1])
        if head is None:
            raise Refused("report_is_needed")
        whole = head["from"] == model.manifest_seq and head["to"] >= proposal["seq"] - 1
        if not whole and head["to"] - head["from"] < needed:
            raise Refused("report_is_needed")


def _record(model: Model, given: Given, stamp: Record, block: Record) -> Record:
    """The record, and what it does."""
    seq = model.tick(stamp)
    action, proposal = given["action"], model.proposals.get(given["proposal"])
    refs: Record = {}
    for name in ("document", "patch", "report"):
        if given[name] is not None:
            refs[name] = _ref(model, given[name])
    if action == "propose":
        model.proposed += 1
        model.proposals[seq] = {
            "seq": seq, "principal": given["principal"], "base": given["base"],
            "document": refs["document"]["hash"], "patch": refs["patch"]["hash"],
            "mode": given["mode"], "leaves": tuple(given["leaves"]), "votes": {}, "reports": {},
        }  # fmt: skip
    elif action == "report":
        assert proposal is not None
        proposal["reports"][refs["report"]["hash"]] = (seq, given["report"])
    elif action == "withdraw":
        close(model, given["proposal"], "withdrawn")
    else:
        assert proposal is not None
        proposal["votes"][given["principal"]] = (action, seq)
        if status(proposal, block) == "rejected":
            close(model, given["proposal"], "rejected")
    return without_nothing(
        kind="governance", seq=seq, stamp=stamp, action=action, principal=given["principal"],
        signature=given["signature"], proposal=given["proposal"], serial=given["serial"],
        base=given["base"], mode=None if given["mode"] == "strict" else given["mode"],
        leaves=list(given["leaves"]), seen=given["seen"], note=given["note"], **refs,
    )  # fmt: skip


def _ref(model: Model, data: bytes) -> Record:
    """A blob, also if it is short."""
    model.blobs[content(data)] = data
    model.marks.erased = [each for each in model.marks.erased if each != content(data)]
    return {"hash": content(data), "size": len(data)}


def status(proposal: Record, block: Record) -> str:
    """GV-25."""
    names = [each["name"] for each in block["approvers"]]
    votes = [proposal["votes"].get(name, ("", 0))[0] for name in names]
    if len(names) - votes.count("reject") < block["quorum"]:
        return "rejected"
    return "approved" if votes.count("approve") >= block["quorum"] else "open"


def close(model: Model, seq: int, how: str) -> None:
    del model.proposals[seq]
    model.closed[seq] = how
    for old in list(model.closed)[:-CLOSED_KEPT]:
        del model.closed[old]


def check_manifest(model: Model, given: Given, document: bytes) -> None:
    """GV-40."""
    block, seq = block_of(model), given.get("proposal")
    if block is None:
        if seq is not None:
            raise Refused("world_is_not_governed")
        return
    if seq is None:
        raise Refused("manifest_needs_proposal")
    proposal = model.proposals.get(seq)
    if proposal is None:
        _not_open(model, seq)
    assert proposal is not None
    if status(proposal, block) != "approved":
        raise Refused("proposal_lacks_quorum")
    mode, leaves = given.get("mode") or "strict", tuple(given.get("leaves") or ())
    wanted = (proposal["document"], proposal["mode"], proposal["leaves"])
    if (content(document), mode, leaves) != wanted:
        raise Refused("proposal_differs")


def comes_in(model: Model, applied: int | None) -> None:
    """GV-26: a manifest came into force."""
    for seq in list(model.proposals):
        close(model, seq, "applied" if seq == applied else "stale")


def needed(model: Model) -> set[bytes]:
    """K-104: what open proposals need."""
    found: set[bytes] = set()
    for each in model.proposals.values():
        found |= {each["document"], each["patch"], *each["reports"]}
        found |= {*manifest_of(model.blobs[each["document"]]).modules.values()}
    return found


def view(model: Model) -> Record:
    return {
        "proposed": model.proposed,
        "open": [
            (
                p["seq"], p["principal"], p["base"], p["document"], p["patch"], p["mode"],
                p["leaves"], dict(p["votes"]),
                {hash: (seq, len(data)) for hash, (seq, data) in p["reports"].items()},
            )
            for p in model.proposals.values()
        ],
        "closed": dict(model.closed),
    }  # fmt: skip

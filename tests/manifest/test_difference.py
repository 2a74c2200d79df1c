"""The report that an operator reads before applying a manifest (M-60)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aos.manifest.difference import Difference, difference
from tests.manifest.example import MANIFEST, NAT, SCHEMAS, good, key, loaded, node, schema


def after(documents: dict[str, Any]) -> Difference:
    return difference(loaded().effective, loaded(documents).effective)


def shown(part: tuple[object, ...]) -> list[str]:
    return [str(change) for change in part]


def test_no_change_is_an_empty_difference() -> None:
    assert after(good()).is_empty


def test_the_first_manifest_adds_everything() -> None:
    first = difference(None, loaded().effective)

    assert shown(first.definitions)[:3] == [
        "+ effect acme/charge@1",
        "+ module acme/orders@1",
        "+ schema acme/Charge@1",
    ]
    assert shown(first.routes) == [
        "+ acme/Placed@1 -> acme/order.step@1 by order_id",
        "+ acme/Moved@1 -> acme/order.step@1 by at.order",
        "+ acme/Tick@1 -> acme/count@1",
    ]
    assert "+ executor billing may sign for acme/charge@1" in shown(first.authority)
    assert first.limits == ()
    assert not first.reordered


def test_definitions_are_added_removed_and_changed() -> None:
    documents = good()
    documents[SCHEMAS][6] = schema("acme/Tock@1", {"record": {"count": NAT}})
    count = node(documents, "acme/count@1")
    count.update(state="acme/Tock@1", event="acme/Tock@1")
    del count["lifecycle"]
    documents[MANIFEST]["routing"]["subscriptions"][2]["event"] = "acme/Tock@1"

    changes = after(documents)

    assert shown(changes.definitions) == [
        "- schema acme/Tick@1",
        "+ schema acme/Tock@1",
        "~ workflow acme/count@1: event, lifecycle, state",
    ]
    assert shown(changes.routes) == [
        "- acme/Tick@1 -> acme/count@1",
        "+ acme/Tock@1 -> acme/count@1",
    ]
    assert changes.authority == ()


def test_a_workflow_that_is_placed_in_other_shards_is_shown() -> None:
    """M-60; groups.md GR-4, GR-5."""
    placed = good()
    placed[MANIFEST]["routing"]["shards"] = [
        {"workflow": "acme/order.step@1", "shard_by": "|"},
        {"workflow": "acme/count@1", "shard": "each"},
    ]
    lines = [
        "acme/count@1 placed in shard 0 -> in each shard",
        'acme/order.step@1 placed by its key -> by "|"',
    ]

    changes = after(placed)

    assert shown(changes.placements) == [f"~ {line}" for line in lines]
    assert not changes.is_empty
    assert shown(difference(None, loaded(placed).effective).placements) == [
        "+ acme/count@1 placed in each shard", '+ acme/order.step@1 placed by "|"',
    ]  # fmt: skip
    back = difference(loaded(placed).effective, loaded().effective).placements
    assert len(shown(back)) == 2
    assert difference(None, loaded().effective).placements == ()


def test_a_route_that_no_longer_creates_is_removed_and_added() -> None:
    """M-30a, M-60."""
    documents = good()
    documents[MANIFEST]["routing"]["subscriptions"][2]["creates"] = False

    assert shown(after(documents).routes) == [
        "- acme/Tick@1 -> acme/count@1",
        "+ acme/Tick@1 -> acme/count@1, existing instances only",
    ]


def accepting(*schemas: str) -> dict[str, Any]:
    documents = good()
    documents[MANIFEST]["routing"]["ingress"] = list(schemas)
    return documents


def test_a_list_of_events_from_outside_is_a_change_of_authority() -> None:
    """M-30b, M-60: a list in the place of none takes from senders all that it does not name."""
    changes = after(accepting("acme/Tick@1", "acme/Placed@1"))

    assert shown(changes.authority) == [
        "+ a sender may send acme/Placed@1",
        "+ a sender may send acme/Tick@1",
        "- a sender may send every event",
    ]
    assert changes.routes == ()
    assert shown(after(accepting()).authority) == ["- a sender may send every event"]


def test_an_event_that_is_opened_or_closed_is_a_change_of_authority() -> None:
    """M-60."""
    old, new = accepting("acme/Placed@1", "acme/Moved@1"), accepting("acme/Moved@1", "acme/Tick@1")

    changes = difference(loaded(old).effective, loaded(new).effective)

    assert shown(changes.authority) == [
        "- a sender may send acme/Placed@1",
        "+ a sender may send acme/Tick@1",
    ]
    assert shown(difference(loaded(old).effective, loaded().effective).authority) == [
        "- a sender may send acme/Moved@1",
        "- a sender may send acme/Placed@1",
        "+ a sender may send every event",
    ]


def test_the_list_of_a_first_manifest_is_told() -> None:
    """M-60: every event is open where no manifest says otherwise."""
    told = shown(difference(None, loaded(accepting("acme/Tick@1")).effective).authority)

    assert [line for line in told if "a sender" in line] == ["+ a sender may send acme/Tick@1"]
    untold = shown(difference(None, loaded().effective).authority)
    assert not any("a sender" in line for line in untold)


def test_another_order_of_routes_is_a_change() -> None:
    documents = good()
    documents[MANIFEST]["routing"]["subscriptions"].reverse()

    changes = after(documents)

    assert changes.reordered
    assert not changes.is_empty
    assert changes.routes == ()


def test_limits_are_shown_where_they_hold() -> None:
    documents = good()
    documents[MANIFEST]["limits"] = {"step": {"events": 17}, "world": {"dedup_rows": 9}}

    assert shown(after(documents).limits) == [
        "~ world mailbox: 50 -> 100000",
        "~ world dedup_rows: 10000000 -> 9",
        "~ acme/count@1 events: 16 -> 17",
        "~ acme/order.step@1 events: 16 -> 17",
    ]


def test_new_powers_are_listed_separately() -> None:
    documents = good()
    node(documents, "acme/order.step@1")["effects_emitted"].append("sys/http.request@1")
    node_executor, billing = documents[MANIFEST]["executors"]
    node_executor["effects"].append("sys/http.request@1")
    billing.update(public_key=key(4), retired_keys=[key(2)], revoked_keys=[key(3)])

    changes = after(documents)

    assert shown(changes.definitions) == ["~ workflow acme/order.step@1: effects_emitted"]
    assert shown(changes.authority) == [
        f"+ executor billing proves older receipts with {key(2)}",
        f"- executor billing proves older receipts with {key(3)}",
        f"+ executor billing revokes {key(3)} for good",
        f"- executor billing signs with {key(2)}",
        f"+ executor billing signs with {key(4)}",
        "+ executor node may sign for sys/http.request@1",
        "+ workflow acme/order.step@1 may emit sys/http.request@1",
    ]


def test_a_limit_that_a_document_leaves_out_at_its_default_is_shown_like_any_other() -> None:
    """M-41."""
    documents = good()
    documents[MANIFEST]["limits"]["world"]["stream_rate"] = 7
    changed = loaded(documents).effective

    [there] = difference(loaded().effective, changed).limits
    [back] = difference(changed, loaded().effective).limits

    assert (there.limit, there.old, there.new) == ("stream_rate", 100, 7)
    assert (back.limit, back.old, back.new) == ("stream_rate", 7, 100)


def test_a_limit_that_older_documents_do_not_have_is_shown_as_not_set() -> None:
    """M-43a."""
    newer = loaded().effective
    older = replace(newer, limits=replace(newer.limits, dedup_step_ns=None))

    [there] = difference(older, newer).limits

    assert str(there) == "~ world dedup_step_ns: not set -> 3600000000000"


def test_a_key_that_is_only_replaced_is_pointed_out() -> None:
    """M-60. A key that was retired before and is named no more is not in force: nothing to say."""
    documents = good()
    billing = documents[MANIFEST]["executors"][1]
    billing.update(public_key=key(4), retired_keys=[])

    lines = shown(after(documents).authority)

    [line] = [line for line in lines if line.startswith("~")]
    assert line == (
        f"~ executor billing is given another key; {key(2)} is neither retired nor revoked "
        "(list it in retired_keys, or in revoked_keys if it may have leaked)"
    )
    for field in ("retired_keys", "revoked_keys"):
        kept = good()
        entry = kept[MANIFEST]["executors"][1]
        entry.update(public_key=key(4), retired_keys=[])
        entry[field] = [key(2)]
        assert not [each for each in shown(after(kept).authority) if each.startswith("~")]


def test_a_revocation_that_is_named_no_more_is_said_to_stay() -> None:
    """K-106."""
    documents = good()
    documents[MANIFEST]["executors"][1].update(retired_keys=[], revoked_keys=[key(3)])

    back = difference(loaded(documents).effective, loaded().effective)

    assert f"~ executor billing no longer names {key(3)}, which stays revoked" in shown(
        back.authority
    )


def test_a_list_of_executors_takes_the_right_from_the_world() -> None:
    documents = good()
    del documents[MANIFEST]["executors"]

    back = difference(loaded(documents).effective, loaded().effective)

    assert "- the world's key may sign for every effect" in shown(back.authority)
    assert "+ the world's key may sign for every effect" in shown(after(documents).authority)


def test_governance_is_a_matter_of_authority() -> None:
    """GV-2: approvers and quorum cannot hide among changed definitions."""
    documents = good()
    documents[MANIFEST]["governance"] = {
        "approvers": [{"name": "bob", "public_key": key(8)}, {"name": "ann", "public_key": key(7)}],
        "quorum": 2,
        "shadow_records": 500,
    }

    changes = after(documents)

    assert shown(changes.authority) == [
        "+ a manifest needs the approval of 2 approvers",
        "+ an approval needs a shadow report of 500 records",
        f"+ approver ann votes with {key(7)}",
        f"+ approver bob votes with {key(8)}",
    ]
    assert changes.definitions == ()
    gone = difference(loaded(documents).effective, loaded().effective)
    assert [line[0] for line in shown(gone.authority)] == ["-"] * 4

"""The world of the demo in small, with everything that an operator looks for: instances that a
fault failed, an executor that is down, timers that wait, two versions of the manifest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from aos.host.folder.making import init_world
from tests.cli.shell import in_silence

ROOT: Final = Path(__file__).parents[2]
EFFECTS: Final = Path(__file__).parent / "shop_effects.py"
SCORING: Final = "shop/scoring@1"
PANIC: Final = "the limit of the customer is not a number"
COUNT: Final = 14
"""Orders under each of the two versions."""

PRICES: Final = (("kettle", 3_195), ("lantern", 4_520), ("rope", 1_899), ("tent", 18_900))


def manifest(folder: Path, *, version: int) -> Path:
    """Write the demo's manifest with one more workflow, which counts, or fails as it is told."""
    found: list[Any] = json.loads(
        (ROOT / "manifests" / "orders" / "air" / "generated.air.json").read_text("utf-8")
    )
    folder.mkdir()
    for each in found:
        if each["$kind"] == "defmodule":
            file = ROOT / "manifests" / "orders" / "air" / each["runtime"]["artifact"]["path"]
            shutil.copy(file, folder)
            each["runtime"]["artifact"]["path"] = file.name
    shutil.copy(ROOT / "modules" / "puppet" / "puppet.wasm", folder / "scoring.wasm")
    text: dict[str, Any] = {"text": {}}
    schemas = {
        "shop/ScoreAsked@1": {"record": {"customer_id": text, "panic": {"option": text}}},
        "shop/Score@1": {"nat": {}},
        "shop/ScoringEvent@1": {"variant": {"Asked": {"ref": "shop/ScoreAsked@1"}}},
    }
    artifact = {"kind": "wasm_module", "path": "scoring.wasm"}
    own = [
        *({"$kind": "defschema", "name": name, "type": type} for name, type in schemas.items()),
        {
            "$kind": "defmodule", "name": "shop/scoring.module@1",
            "runtime": {"kind": "wasm", "artifact": artifact},
        },
        {
            "$kind": "defworkflow", "name": SCORING, "state": "shop/Score@1",
            "event": "shop/ScoringEvent@1", "key_schema": "shop/CustomerId@1",
            "effects_emitted": [], "limits": {"effects": version},
            "impl": {"module": "shop/scoring.module@1", "entrypoint": "step"},
        },
    ]  # fmt: skip
    whole = found[-1]
    for name in schemas:
        whole["schemas"].append({"name": name})
    whole["modules"].append({"name": "shop/scoring.module@1"})
    whole["workflows"].append({"name": SCORING})
    route = {"event": "shop/ScoreAsked@1", "workflow": SCORING, "key_field": "customer_id"}
    whole["routing"]["subscriptions"].append(route)
    whole["routing"]["ingress"].append(route["event"])
    (folder / "shop.air.json").write_text(json.dumps([*found[:-1], *own, whole]))
    return folder


def shop_world(path: Path) -> Path:
    """Make the world in the folder ``path``, which is new; its manifests are next to it."""
    init_world(path)
    for version, executors in ((1, "shop"), (2, "no_parcels")):
        air = manifest(path.parent / f"{path.name}-{version}", version=version)
        aos("apply", air, "--mode", "pin", "--world", path)
        file = air / "events.jsonl"
        lines = [
            *map(_placed, range(COUNT * (version - 1) + 1, COUNT * version + 1)),
            *(_scored(i, panic) for i, panic in ((1, None), (2, None), (version + 2, PANIC))),
        ]
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        aos("send", "--jsonl", file, "--world", path)
        aos("run", "--until-waiting", "--executors", f"{EFFECTS}:{executors}", "--world", path)
    return path


def _placed(number: int) -> Any:
    items = [
        {"sku": sku, "quantity": 1 + number % 3, "price_cents": cents}
        for sku, cents in PRICES[number % 2 : 2 + number % 3]
    ]
    value = {
        "order_id": f"ord-{number:05}", "customer_id": f"cus-{1 + number % 5:03}",
        "items": items, "patience": "10h",
    }  # fmt: skip
    return {"schema": "shop/OrderPlaced@1", "value": value, "submission_id": f"web-{number}"}


def _scored(customer: int, panic: str | None) -> Any:
    value = {"customer_id": f"cus-{customer:03}", "panic": panic}
    return {"schema": "shop/ScoreAsked@1", "value": value}


def aos(*words: str | Path) -> None:
    """Run a command that must succeed."""
    assert in_silence(*words) == 0, words

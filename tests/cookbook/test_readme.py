"""Each README of the cookbook is true: what it says to type works, and shows what it says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import COOKBOOK, PATTERNS, ROOT, recipe
from tests.free_ports import free_port

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

PORT: Final = "17471"
"""Of the bank in the world billing."""

SHOWN: Final = {
    "saga": (
        r"trip/booking@1\tt-1\tcompleted",
        r"sold_out",
        r"asks trip/cancel@1",
        r"emits trip/Undone@1",
        r'"undo": \[\{"\$tag": "Flight"\}, \{"\$tag": "Hotel"\}\]',
    ),
    "choreography": (
        r"market/delivery@1\to-1\tcompleted",
        r"market/delivery@1\to-2\tidle",
        r"emits market/ParcelRefused@1",
        r"emits market/PaymentReturned@1",
    ),
    "backoff": (
        r'"attempt":3',
        r"report/fetching@1\tr-2\tcompleted",
        r'emits report/GivenUp@1 .*"too late"',
    ),
    "idempotency": (r"unknown_outcome", r"asks bank/look@1", r"emits bank/Paid@1"),
    "fence": (
        r"3  sent before",
        r'"repeats": 2',
        r'emits seat/Answered@1 .*"r-2".*"Taken"',
    ),
    "fan_in": (
        r"emits quote/Closed@1 .*ede",
        r"canceled",
    ),
    "flow_saga": (
        r"trip/booking@1\tt-1\tcompleted",
        r"trip/booking@1\tt-2\tfailed",
        r"trip/booking@1\tt-3\tcanceled",
        r'"car": "Car-',
        r"critical sold_out: nothing left \(at hotel\)",
        r"flight\ttrip/cancel@1\tdone\t1",
    ),
    "flow_subscription": (
        r"club/membership@1\tm-1\tsleeping",
        r"club/membership@1\tm-2\trunning",
        r"year/months/month/~0/next\tsleep\trunning",
        r"~ workflow club/membership@1: upgrade",
        r'"\$tag": "Left", "\$value": \{"reason": "moved"\}',
    ),
    "flow_agent": (
        r"desk/agent@1\tt-1\tsleeping",
        r'"\$tag": "NeedsApproval"',
        r"thought/~1/decision/~0/verdict\tlisten\trunning",
        r'"receipt": "refund 45 EUR of o-7 \(',
        r"I am sorry, we cannot refund this",
        r'"\$tag": "OverBudget", "\$value": \{"tokens": 250\}',
    ),
    "flow_events": (
        r"parcel/delivery@1\to-1\tsleeping",
        r"leg/~1/redirect\tlisten\trunning",
        r'"\$tag": ?"Sent", ?"\$value": ?"Porto"',
        r'"\$tag": ?"Lost", ?"\$value": ?"no_road"',
    ),
    "neighbours": (
        r"shop/order@1\to-1\tcompleted",
        r"shop/order@1\to-2\tcompleted",
        r'"cents": ?200',
        r"event \d+ of bank: bank/Charge@1",
        r"asks sys/world.send@1 .*shop/Charged@1",
        r"event \d+: shop/Charged@1",
    ),
    "sealed": (
        r'"reference": "charge-[0-9a-f]{8}", "order": "o-1", "cents": 4900',
        r'asks card/keep@1 \{"card":"A[A-Za-z0-9+/=]{60,}","order_id":"o-1"\}',
        r'"card": "4929 7203 1187 6653"',
        r"\n0\n",
        r"\[sealed \$\.card\] is not the number of a card",
        r"card/payment@1\to-2\tfailed",
        r"card/payment@1\to-3\tcompleted",
        r"[0-9a-f]{16}  \S+  opens\n[0-9a-f]{16}  \S+  seals and opens",
    ),
    "approval": (
        r"approval/request@1\tr-1\tcompleted",
        r"approval/request@1\tr-2\tcompleted",
        r'emits approval/Settled@1 .*"bob"',
        r'emits approval/Ignored@1 .*"ann"',
        r'emits approval/Settled@1 .*"Expired"',
    ),
    "billing": (
        r's-2\twaiting.*"refusals":1',
        r's-3\twaiting.*"Unknown"',
        r'asks sys/http.request@1 .*"amount":\{"cents":4900,"currency":"EUR"\}',
        r'receipt .* delivered 201 \{"charge":\{"id":"ch-\d"',
        r"emits billing/Paid@1",
        r"billing/subscription@1\ts-1\tcompleted",
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_commands_of_a_readme_print_the_output_that_it_shows(name: str, bin_: Path) -> None:
    typed = blocks(recipe(name) / "README.md")
    if name == "billing":
        typed = [block.replace(PORT, _with_a_free_port()) for block in typed]
    else:
        for folder in ("manifests", "modules"):
            Path(folder).symlink_to(ROOT / folder)

    found = "".join(follow(block, bin_=bin_) for block in typed)

    for each in SHOWN[name]:
        assert re.search(each, found), f"{each}\n{found}"
    if name == "idempotency":
        lines = Path("books.jsonl").read_text().splitlines()
        assert len(lines) == 2, lines


def _with_a_free_port() -> str:
    """Copy the billing world, with another port of the bank in its module; return the port."""
    port = str(free_port())  # other tests run at the same time
    for folder in ("manifests", "modules"):
        shutil.copytree(ROOT / folder / "cookbook" / "billing", f"{folder}/cookbook/billing")
    module = Path("modules/cookbook/billing/billing.wasm")
    wasm = module.read_bytes()
    assert wasm.count(PORT.encode()) == 1
    module.write_bytes(wasm.replace(PORT.encode(), port.encode()))
    return port


def test_each_pattern_has_a_scenario_that_passes(bin_: Path) -> None:
    (block,) = blocks(COOKBOOK / "README.md")
    Path("manifests").symlink_to(ROOT / "manifests")
    Path("modules").symlink_to(ROOT / "modules")

    found = follow(block, bin_=bin_)

    assert "25 scenarios passed" in found
    for name in PATTERNS:
        assert f"cookbook/{name}/" in found


def test_every_pattern_is_in_the_index_and_every_link_leads_somewhere() -> None:
    index = (COOKBOOK / "README.md").read_text()
    for name in PATTERNS:
        assert f"]({name}/README.md)" in index
    pages = [COOKBOOK / "README.md", COOKBOOK.parent / "README.md"]
    pages += [recipe(name) / "README.md" for name in (*PATTERNS, "linear", "typescript", "workers")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_every_folder_of_the_cookbook_is_a_pattern_with_a_module_and_tests() -> None:
    folders = {each.name for each in os.scandir(COOKBOOK) if each.is_dir() and each.name[0] != "_"}

    # They have no module here, and tests of their own: the workers carry out the effects of the
    # saga, the client sends to it, and the module of linear step plans is a package.
    assert folders == {*PATTERNS, "linear", "typescript", "workers"}
    for name in PATTERNS:
        crate = name.replace("_", "-")
        assert (ROOT / "modules" / "cookbook" / crate / f"{crate}.wasm").is_file()
        assert (Path(__file__).parent / f"test_{name}.py").is_file()
        # The effects of the two worlds are those of the node.
        assert (recipe(name) / "effects.py").is_file() == (name != "neighbours")

"""Pages of the specification are true: the commands of their examples are typed on real worlds."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aos.host.folder.folder import open_folder
from aos.values.digests import hash_text
from tests.cli.shell import here
from tests.cli.test_node_commands import served
from tests.cli.test_worlds_commands import hosted
from tests.cookbook.typed import bin_, follow
from tests.cookbook.worlds import ROOT
from tests.free_ports import free_port
from tests.guides.code_blocks import blocks_of

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

ORDER: Final = (
    '{"order_id": "%s", "customer_id": "c-1", "patience": "5m", '
    '"items": [{"sku": "tea", "quantity": 2, "price_cents": 625}]}'
)
WORLD_ID: Final = re.compile(r"blake3:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of the demo with two orders, which wait for an executor."""
    world = tmp_path_factory.mktemp("orders") / "shop"
    assert here("init", world).code == 0
    assert here("apply", ROOT / "manifests/orders", "--world", world).code == 0
    for order in ("o-1", "ord-00042"):
        assert here("send", "shop/OrderPlaced@1", ORDER % order, "--world", world).code == 0
    assert here("run", "--until-waiting", "--world", world).code == 0
    return world


@pytest.fixture
def shop(orders: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that world in the reader's folder, which the environment names."""
    assert bin_.is_dir()
    world = Path.cwd() / "shop"
    shutil.copytree(orders, world)
    assert here("adopt", "--world", world).code == 0
    monkeypatch.setenv("AOS_WORLD", "shop")
    for folder in ("manifests", "modules", "spec"):
        Path(folder).symlink_to(ROOT / folder)
    return world


def shell(page: str, *, bin_: Path, replaced: dict[str, str] | None = None) -> str:
    """Run all commands of a page, in one folder; return what they print."""
    printed = ""
    for text in blocks_of(page, "sh"):
        for old, new in (replaced or {}).items():
            assert old in text, f"{page} no longer has {old!r}"
            text = text.replace(old, new)  # noqa: PLW2901  # what the reader would adapt
        printed += follow(text, bin_=bin_)
    return printed


def test_bundle(shop: Path, bin_: Path) -> None:
    printed = shell("bundle.md", bin_=bin_)

    assert printed.count("sound to record") == 1
    assert printed.count("byte-identical to record") == 1
    assert open_folder(Path("copy")).world == open_folder(shop).world
    assert open_folder(Path("what-if")).world != open_folder(shop).world


def test_exports(shop: Path, bin_: Path) -> None:
    assert shop.exists()
    shell("exports.md", bin_=bin_)

    for name in ("orders.sqlite", "orders.xes", "report.html"):
        assert Path(name).stat().st_size > 1000


def test_proofs(shop: Path, bin_: Path) -> None:
    [block] = blocks_of("proofs.md", "sh")
    [printed_id] = set(WORLD_ID.findall(block))

    printed = shell(
        "proofs.md", bin_=bin_, replaced={printed_id: hash_text(open_folder(shop).world)}
    )

    assert printed.count("the proof holds") == 2
    assert "it continues 1 checkpoint" in printed


def test_search(shop: Path, bin_: Path) -> None:
    """With the world of linear.md for the second command."""
    assert shop.exists()
    with plans(Path.cwd() / "plans"):
        found = shell(
            "search.md", bin_=bin_, replaced={"aos linear list": "aos linear list -w plans"}
        )

    assert "shop/order@1\to-1\twaiting" in found
    assert "shop/order@1\tord-00042\twaiting" in found


def test_batch(shop: Path, bin_: Path) -> None:
    with served(shop, "--operator-key", shop / "keys" / "operator.key"):
        shell("batch.md", bin_=bin_)
        batches = here("batch", "list", "--json", "--world", shop).json["batches"]

    assert [(each["action"], each["total"]) for each in batches] == [("send", 2), ("retry", 0)]


def test_worlds(bin_: Path) -> None:
    """With the node in the background; the reader has a terminal for it."""
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)
    folder_block, requests_block = blocks_of("worlds.md", "sh")
    command = "aos node --worlds worlds --idle 10m\n"
    assert folder_block.endswith(command)

    follow(folder_block.removesuffix(command), bin_=bin_)
    with hosted(Path("worlds"), "--idle", "10m") as url:
        request = "curl http://127.0.0.1:7460"
        assert request in requests_block
        printed = follow(
            requests_block.replace(request, f"curl -sS --fail-with-body {url}"), bin_=bin_
        )

    assert "applied as record" in printed
    assert "bank\t" in printed
    assert '"manifest"' in printed


@pytest.mark.parametrize("page", ["node.md", "node-api.md"])
def test_requests_to_a_node(shop: Path, bin_: Path, page: str) -> None:
    """Each request is answered without an error; a stream is read for two seconds. No executor
    runs, so no event is settled."""
    port = str(free_port())
    replaced = {"7460": port, "curl ": "curl -sS --fail-with-body --max-time 60 "}
    if page == "node.md":
        replaced["aos node --world shop &\n"] = ""
    else:
        replaced["'http://localhost:7460/v1/journal/stream?from=1'\n"] = (
            f"--max-time 2 http://localhost:{port}/v1/journal/stream?from=1 || test $? = 28\n"
        )
        replaced["wait=settled"] = "wait=ran"
    with served(shop, "--listen", f"127.0.0.1:{port}"):
        printed = shell(page, bin_=bin_, replaced=dict(reversed(replaced.items())))

    assert "o-1" in printed or "manifest" in printed


def test_sealed(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)
    assert here("init", "cards").code == 0
    assert here("apply", "manifests/cookbook/sealed", "--world", "cards").code == 0
    monkeypatch.setenv("AOS_WORLD", "cards")

    assert "4929 7203 1187 6653" in shell("sealed.md", bin_=bin_)


@contextlib.contextmanager
def plans(world: Path) -> Iterator[None]:
    """The world of the plan on linear.md, made of the blocks of that page."""
    [manifest] = blocks_of("linear.md", "json")
    source = world.parent / "plan"
    (source / "air").mkdir(parents=True)
    (source / "air" / "plan.air.json").write_text(manifest)
    assert here("init", world).code == 0
    assert here("apply", source, "--world", world).code == 0
    yield


def test_linear(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [functions] = blocks_of("linear.md", "python")
    Path("plans.py").write_text(functions)
    with plans(Path.cwd() / "world"):
        monkeypatch.setenv("AOS_WORLD", "world")
        with served(Path.cwd() / "world", "--worker", f"{Path.cwd()}/plans.py:shop"):
            printed = shell(
                "linear.md", bin_=bin_, replaced={"aos node --worker plans.py:shop &\n": ""}
            )

    assert "status    RUNNING" in printed
    assert "0  VALIDATE" in printed

"""The demo's shop as a process: idempotent, durable, and going wrong by its seed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.worker import EffectContext, EffectFailed, Executors
from aos.worker.load_executors import load
from tests.modules.guests import ROOT, shop_module

books = shop_module("books")
mishaps = shop_module("mishaps")

ORDERLY = ("--fail-rate=0", "--stall-rate=0", "--refuse-rate=0")
ITEMS = [{"sku": "rope", "quantity": 1, "price_cents": 500}]


@dataclass
class Service:
    process: subprocess.Popen[str]
    client: httpx.Client
    url: str

    def post(self, path: str, key: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body, headers={"Idempotency-Key": key})

    def charge(self, order_id: str, key: str, cents: int = 500) -> httpx.Response:
        body = {"order_id": order_id, "customer_id": "cus-1", "amount_cents": cents}
        return self.post("/card/charge", key, **body)

    def totals(self) -> Any:
        return self.client.get("/books").json()


@contextlib.contextmanager
def serving(file: Path, *options: str, stop: signal.Signals = signal.SIGTERM) -> Iterator[Service]:
    command = [sys.executable, str(ROOT / "manifests/orders/service.py"), "--books", str(file)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield Service(process, client, url)
        finally:
            process.send_signal(stop)
            code = process.wait(timeout=60)
    assert code == (0 if stop is signal.SIGTERM else -stop)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "books.jsonl"


def test_a_key_is_booked_once_and_answered_the_same_every_time(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        answers = [service.charge("ord-1", "k").json() for _ in range(3)]

    assert answers == [{"charge": "chg-ord-1-1", "amount_cents": 500}] * 3
    assert len(books.read_entries(file)) == 1


def test_a_key_that_is_used_for_something_else_is_refused(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        service.charge("ord-1", "k", 500)
        answer = service.charge("ord-1", "k", 501)

    assert (answer.status_code, answer.json()["code"]) == (422, "key_reused")


def test_an_order_charged_under_two_keys_shows_in_the_books(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        service.charge("ord-1", "k1")
        service.charge("ord-1", "k2")

        totals = service.totals()

    assert totals["orders_charged_twice"] == 1
    assert "orders charged twice: 1" in totals["wrong"]


def test_a_refund_takes_back_what_there_is_and_bars_what_comes_late(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        service.charge("ord-1", "c1")
        assert service.post("/card/refund", "r1", order_id="ord-1").json() == {
            "refunded_cents": 500
        }
        assert service.post("/card/refund", "r2", order_id="ord-2").json() == {"refunded_cents": 0}
        late = service.charge("ord-2", "c2")
        totals = service.totals()

    assert (late.status_code, late.json()["code"]) == (409, "voided")
    assert (totals["charged_cents"], totals["refunded_cents"], totals["wrong"]) == (500, 500, [])


def test_only_reserved_stock_is_shipped_and_released_stock_is_not_reserved(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        shipping = {"order_id": "ord-1", "items": ITEMS, "value_cents": 500}
        first = service.post("/parcel/ship", "s1", **shipping)
        service.post("/stock/reserve", "a1", order_id="ord-1", items=ITEMS)
        second = service.post("/parcel/ship", "s2", **shipping)
        service.post("/stock/release", "b2", order_id="ord-2")
        third = service.post("/stock/reserve", "a2", order_id="ord-2", items=ITEMS)

    assert first.json()["code"] == "not_reserved"
    assert second.json() == {"parcel": "par-ord-1"}
    assert third.json()["code"] == "voided"


def test_the_books_survive_a_kill_and_a_torn_last_line_is_cut_off(file: Path) -> None:
    with serving(file, *ORDERLY, stop=signal.SIGKILL) as service:
        first = service.charge("ord-1", "k").json()
    file.write_bytes(file.read_bytes() + b'{"kind":"charged","order_id":"ord-2"')

    assert len(books.read_entries(file)) == 1
    with serving(file, *ORDERLY) as service:
        assert service.charge("ord-1", "k").json() == first
        service.charge("ord-3", "k3")
    assert [entry.order_id for entry in books.read_entries(file)] == ["ord-1", "ord-3"]


def test_a_permanently_refused_request_is_not_booked(file: Path) -> None:
    with serving(file, "--fail-rate=0", "--stall-rate=0", "--refuse-rate=1") as service:
        answers = [
            service.post("/stock/reserve", "a", order_id="ord-1", items=ITEMS),
            service.charge("ord-1", "c"),
        ]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (409, "out_of_stock"),
        (402, "declined"),
    ]
    assert books.read_entries(file) == []


def test_a_key_is_answered_after_three_mishaps(file: Path) -> None:
    with serving(file, "--fail-rate=1", "--stall-rate=0", "--refuse-rate=0") as service:
        statuses = [service.charge("ord-1", "k").status_code for _ in range(4)]

    assert set(statuses[:3]) <= {500, 503}
    assert statuses[3] == 200
    assert len(books.read_entries(file)) == 1


def test_a_caller_who_hangs_up_has_been_charged_all_the_same(file: Path) -> None:
    stalling = ("--fail-rate=0", "--stall-rate=1", "--refuse-rate=0", "--stall-ms=300")
    with serving(file, *stalling) as service:
        for number in range(8):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(
                    f"{service.url}/card/charge",
                    json={"order_id": f"o{number}", "customer_id": "c", "amount_cents": 1},
                    headers={"Idempotency-Key": f"k{number}"},
                    timeout=httpx.Timeout(60, read=0.05),
                    trust_env=False,
                )
        # At once for some, after the stall for the others.
        deadline = time.monotonic() + 60
        while service.totals()["charges"] < 8 and time.monotonic() < deadline:
            time.sleep(0.05)

    assert len(books.read_entries(file)) == 8


def test_the_same_seed_goes_wrong_in_the_same_places() -> None:
    def course(seed: int) -> list[Any]:
        temper = mishaps.Temper(
            seed=seed, fail_rate=0.03, stall_rate=0.01, refuse_rate=0.02, stall_ms=1
        )
        return [
            (temper.mishap("/card/charge", f"ord-{n}", 1), temper.refuses("charge", f"ord-{n}"))
            for n in range(2000)
        ]

    assert course(7) == course(7)
    assert course(7) != course(8)
    wrong = [mishap for mishap, _ in course(7) if mishap is not mishaps.Mishap.NONE]
    assert 0.02 < len(wrong) / 2000 < 0.06
    assert set(wrong) == set(mishaps.Mishap) - {mishaps.Mishap.NONE}


@pytest.mark.parametrize(
    ("request_line", "headers", "body", "status"),
    [
        ("POST /card/charge", {}, b"{}", 400),
        ("POST /card/charge", {"Idempotency-Key": "k"}, b"{", 400),
        ("POST /card/charge", {"Idempotency-Key": "k"}, b"[]", 400),
        ("POST /card/refund", {"Idempotency-Key": "k"}, b'{"order_id": 7}', 400),
        ("POST /card/refund", {"Idempotency-Key": "k"}, b'{"order_id": ""}', 400),
        ("POST /elsewhere", {"Idempotency-Key": "k"}, b"{}", 404),
        ("PUT /card/charge", {}, b"{}", 405),
        ("POST /card/charge", {"Idempotency-Key": "k"}, b"x" * 70_000, 411),
        ("GET /books", {"X": "y" * 20_000}, b"", 431),
    ],
)
def test_an_invalid_request_is_refused_and_the_service_continues(
    service: Service, request_line: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    method, path = request_line.split()
    with httpx.Client(base_url=service.url, trust_env=False) as client:
        answer = client.request(method, path, headers=headers, content=body)

    assert answer.status_code == status
    assert service.client.get("/books").status_code == 200


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("shop") / "books.jsonl", *ORDERLY) as service:
        yield service


def test_a_port_in_use_and_books_that_cannot_be_opened_are_told_in_a_sentence(file: Path) -> None:
    command = [sys.executable, str(ROOT / "manifests/orders/service.py")]
    with serving(file) as service:
        port = service.url.rpartition(":")[2]
        taken, nowhere = (
            subprocess.run([*command, *words], capture_output=True, text=True, check=False)
            for words in (
                ["--books", f"{file}.other", "--port", port],
                ["--books", str(file / "none")],
            )
        )

    assert (taken.returncode, taken.stdout) == (nowhere.returncode, nowhere.stdout) == (1, "")
    assert taken.stderr == (
        f"service.py: 127.0.0.1:{port}: Address already in use (choose another --port; 0 is any)\n"
    )
    assert nowhere.stderr.startswith(f"service.py: {file}/none: the books cannot be opened: ")


def test_many_at_once_are_each_booked_once(file: Path) -> None:
    with serving(file, *ORDERLY) as service, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: service.charge(f"ord-{n % 50}", f"k-{n % 50}"), range(400)))
        totals = service.totals()

    assert totals["charges"] == 50
    assert totals["keys_booked_twice"] == 0


def test_the_totals_say_what_does_not_add_up(file: Path) -> None:
    with serving(file, *ORDERLY) as service:
        service.charge("ord-1", "k")

    ran = subprocess.run(
        [sys.executable, ROOT / "manifests/orders/books.py", file],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert json.loads(ran.stdout)["wrong"] == [
        "charged - refunded is 500 cents, the value shipped 0"
    ]


# --- The executors --------------------------------------------------------------------------------


def executors() -> Executors:
    return load(f"{ROOT}/manifests/orders/effects.py:shop")


def context(effect: str, resource: Any) -> EffectContext:
    return EffectContext(
        intent="blake3:" + "0" * 64,
        effect=effect,
        idempotency_key="blake3:" + "1" * 64,
        attempt=1,
        workflow="shop/order@1",
        key="ord-1",
        issuer_ref="charge/1",
        world="blake3:" + "2" * 64,
        deadline_ns=0,
        resource=resource,
    )


def call(url: str, effect: str, params: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHOP_URL", url)
    shop = executors()
    assert shop.setup is not None
    setup = shop.setup

    async def once() -> Any:
        async with setup() as clients:
            return await shop.effects[effect](params, context(effect, clients))

    return asyncio.run(once())


CHARGE = {"order_id": "ord-1", "customer_id": "cus-1", "amount_cents": 500}


def test_an_effect_is_what_the_shop_answers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(file, *ORDERLY) as service:
        answer = call(service.url, "shop/card.charge@1", CHARGE, monkeypatch)

    assert answer == {"charge": "chg-ord-1-1", "amount_cents": 500}
    assert books.read_entries(file)[0].key == "blake3:" + "1" * 64


@pytest.mark.parametrize(
    ("options", "codes", "retryable"),
    [
        (("--fail-rate=0", "--stall-rate=0", "--refuse-rate=1"), {"declined"}, False),
        (("--fail-rate=1", "--stall-rate=0", "--refuse-rate=0"), {"unavailable", "internal"}, True),
    ],
)
def test_a_failure_says_whether_it_is_for_good(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    codes: set[str],
    retryable: bool,
) -> None:
    with serving(file, *options) as service, pytest.raises(EffectFailed) as failed:
        call(service.url, "shop/card.charge@1", CHARGE, monkeypatch)

    assert failed.value.code in codes
    assert failed.value.retryable is retryable


def test_every_effect_of_the_manifest_has_its_function() -> None:
    air = json.loads((ROOT / "manifests/orders/air/generated.air.json").read_text())

    declared = {node["name"] for node in air if node["$kind"] == "defeffect"}

    assert declared == set(executors().effects)
    assert executors().name == "shop"

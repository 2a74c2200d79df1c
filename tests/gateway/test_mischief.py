"""``mischief.py``: each thing that it does to a request, decided by a seed, and its barriers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from chain import Chain, NodeUnreachable, RpcError
from chain_rpc import call
from hypothesis import given
from hypothesis import strategies as st
from mischief import Mischief, Place, Rates
from mischief_rates import FINISHES, KINDS, REPLACES, drawn
from mischief_stale import READS
from studio import receipt_of

from tests.gateway import GATEWAY
from tests.gateway.real_chain import INSTANT, MANUAL, chain_up
from tests.gateway.studio_calls import send

SEND = "eth_sendRawTransaction"


class FakeNode(ThreadingHTTPServer):
    """A node that keeps the methods that it was asked, and returns the parameters."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeNodeHandler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class FakeNodeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeNode
    wbufsize = 1 << 16

    def do_POST(self) -> None:
        found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = []
        for request in found if isinstance(found, list) else [found]:
            self.server.asked.append(request["method"])
            answers.append({"jsonrpc": "2.0", "id": request["id"], "result": request["params"]})
        body = json.dumps(answers if isinstance(found, list) else answers[0]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def mischief(node: FakeNode) -> Iterator[Mischief]:
    with Mischief(node.url) as proxy:
        yield proxy


@contextmanager
def sent(mischief: Mischief, method: str = SEND) -> Iterator[Future[Any]]:
    """A call in another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call, mischief.url, method, ["0x01"])


def raw(mischief: Mischief) -> httpx.Response:
    request = {"jsonrpc": "2.0", "id": 1, "method": SEND, "params": ["0x01"]}
    return httpx.post(mischief.url, json=request, timeout=60)


# Decisions


def test_a_decision_depends_on_seed_request_and_number_alone() -> None:
    rates = Rates().changed(dict.fromkeys(KINDS, 0.3))
    requests = [(f"request {index}", number) for index in range(40) for number in (1, 2)]

    forwards = {each: drawn(rates, 7, *each) for each in requests}
    backwards = {each: drawn(rates, 7, *each) for each in reversed(requests)}

    assert forwards == backwards
    assert forwards != {each: drawn(rates, 8, *each) for each in requests}
    assert len(set(forwards.values())) > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_happens_as_often_as_its_rate_and_never_at_zero(kind: str) -> None:
    requests = [f"request {index}" for index in range(1000)]

    def share(rates: Rates) -> float:
        return sum(kind in drawn(rates, 1, each, 1) for each in requests) / len(requests)

    assert share(Rates()) == 0
    assert 0.25 < share(Rates().changed({kind: 0.3})) < 0.35
    assert share(Rates().changed({kind: 1})) == 1


@given(
    shares=st.fixed_dictionaries({kind: st.floats(0, 1) for kind in KINDS}),
    seed=st.integers(0, 9),
)
def test_a_request_has_at_most_one_answer(shares: dict[str, Any], seed: int) -> None:
    found = drawn(Rates(**shares), seed, "a request", 1)

    assert len(found & set(FINISHES)) <= 1
    assert len(found & set(REPLACES)) <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loose": 0.1}, "unknown rate loose"),
        ({"lose": 1.1}, "expected a share from 0 to 1"),
        ({"lose": -0.1}, "expected a share from 0 to 1"),
        ({"lose": True}, "expected a number"),
        ({"lose": "0.1"}, "expected a number"),
        ({"delay_ms": 0.5}, "expected a whole number"),
    ],
)
def test_rates_out_of_range_are_refused_and_change_nothing(
    mischief: Mischief, changes: dict[str, Any], message: str
) -> None:
    answer = httpx.post(f"{mischief.url}/mischief", json={"cut": 0.5, **changes}, timeout=60)

    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert mischief.rates == Rates()


# Each kind


def test_without_rates_every_request_passes_as_it_is(node: FakeNode, mischief: Mischief) -> None:
    assert call(mischief.url, "eth_call", [{"to": "0x01"}, "latest"]) == [{"to": "0x01"}, "latest"]
    assert call(mischief.url, SEND, ["0x01"]) == ["0x01"]
    assert node.asked == ["eth_call", SEND]
    assert mischief.counts() == {"eth_call": 1, SEND: 1}


@pytest.mark.parametrize(
    ("kind", "status", "begins"),
    [
        ("limit", 429, '{"error": "too many requests"}'),
        ("fail", 500, '{"error": "internal server error"}'),
        ("html", 200, "<!DOCTYPE html>"),
    ],
)
def test_a_refused_request_never_reaches_the_node(
    node: FakeNode, mischief: Mischief, kind: str, status: int, begins: str
) -> None:
    mischief.change(**{kind: 1.0})

    answer = raw(mischief)

    assert (answer.status_code, answer.text[: len(begins)]) == (status, begins)
    assert node.asked == []
    assert mischief.counts() == {SEND: 1, kind: 1}
    with pytest.raises(NodeUnreachable):
        call(mischief.url, SEND, [])


def test_an_error_500_after_the_forward_hides_what_was_done(
    node: FakeNode, mischief: Mischief
) -> None:
    mischief.change(fail_after=1)

    assert raw(mischief).status_code == 500
    assert node.asked == [SEND]


def test_a_cut_reply_is_half_of_its_json(node: FakeNode, mischief: Mischief) -> None:
    whole = raw(mischief).text
    mischief.change(cut=1)

    answer = raw(mischief)

    assert (answer.status_code, answer.text) == (200, whole[: len(whole) // 2])
    assert node.asked == [SEND, SEND]


def test_a_lost_reply_closes_the_connection_after_the_node_has_answered(
    node: FakeNode, mischief: Mischief
) -> None:
    mischief.change(lose=1)

    with pytest.raises(httpx.RemoteProtocolError):
        raw(mischief)
    assert node.asked == [SEND]
    assert mischief.counts() == {SEND: 1, "lose": 1}


def test_a_delayed_reply_comes_later(node: FakeNode, mischief: Mischief) -> None:
    mischief.change(delay=1, delay_ms=60)
    begins = time.monotonic()

    assert call(mischief.url, SEND, ["0x01"]) == ["0x01"]
    assert time.monotonic() - begins >= 0.06
    assert (node.asked, mischief.counts()["delay"]) == ([SEND], 1)


def test_an_outage_closes_every_connection_until_it_ends(
    node: FakeNode, mischief: Mischief
) -> None:
    with httpx.Client(base_url=mischief.url, timeout=60) as client:
        client.post("/mischief", json={"outage": True})
        with pytest.raises(httpx.RemoteProtocolError):
            client.post("/", json={"id": 1, "method": SEND, "params": []})
        assert client.get("/mischief").json()["outage"] is True
        client.post("/mischief", json={"outage": False})
        assert client.post("/", json={"id": 1, "method": SEND, "params": []}).status_code == 200

    assert node.asked == [SEND]


def test_a_node_that_is_down_is_a_connection_without_an_answer() -> None:
    with FakeNode() as gone:
        url = gone.url
    with Mischief(url) as mischief:
        with pytest.raises(NodeUnreachable):
            call(mischief.url, SEND, [])
        assert mischief.counts() == {SEND: 1, "unreachable": 1}


# Batches


def batch(mischief: Mischief, *methods: str) -> httpx.Response:
    """A batch, whose ids are the places of its calls."""
    calls: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": place, "method": method, "params": [place]}
        for place, method in enumerate(methods)
    ]
    return httpx.post(mischief.url, json=calls, timeout=60)


def test_a_batch_passes_as_it_is(node: FakeNode, mischief: Mischief) -> None:
    answers = batch(mischief, SEND, "eth_call").json()

    assert answers == [{"jsonrpc": "2.0", "id": each, "result": [each]} for each in (0, 1)]
    assert node.asked == [SEND, "eth_call"]
    assert mischief.counts() == {SEND: 1, "eth_call": 1}


def fated(mischief: Mischief, method: str, *kinds: str) -> None:
    """Let these kinds happen to the calls of one method alone."""

    def fate(request: dict[str, Any]) -> frozenset[str]:
        return frozenset(kinds if request["method"] == method else ())

    mischief.fate = fate  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("kind", "status", "begins"),
    [("limit", 429, '{"error": "too'), ("fail", 500, '{"error": "int'), ("html", 200, "<!DOCT")],
)
def test_a_call_that_is_refused_takes_the_reply_of_its_batch_with_it(
    node: FakeNode, mischief: Mischief, kind: str, status: int, begins: str
) -> None:
    fated(mischief, "eth_call", kind)

    answer = batch(mischief, SEND, "eth_call", "eth_chainId")

    assert (answer.status_code, answer.text[: len(begins)]) == (status, begins)
    assert node.asked == [SEND, "eth_chainId"]
    assert mischief.counts() == {kind: 1}


def test_a_call_whose_reply_is_lost_or_cut_takes_that_of_its_batch_with_it(
    node: FakeNode, mischief: Mischief
) -> None:
    whole = batch(mischief, SEND, "eth_call").text
    fated(mischief, "eth_call", "cut")
    assert batch(mischief, SEND, "eth_call").text == whole[: len(whole) // 2]
    fated(mischief, "eth_call", "fail_after")
    assert batch(mischief, SEND, "eth_call").status_code == 500
    fated(mischief, "eth_call", "lose")
    with pytest.raises(httpx.RemoteProtocolError):
        batch(mischief, SEND, "eth_call")

    assert node.asked == 4 * [SEND, "eth_call"]


def test_each_delayed_call_delays_its_batch(mischief: Mischief) -> None:
    mischief.change(delay_ms=30)
    fated(mischief, "eth_call", "delay")
    begins = time.monotonic()

    batch(mischief, "eth_call", SEND, "eth_call")

    assert time.monotonic() - begins >= 0.06
    assert mischief.counts() == {"delay": 2}


def test_a_call_in_a_batch_is_drawn_as_it_is_alone(node: FakeNode) -> None:
    """The seed decides about each call, and not about the batch that it is in."""
    rates = Rates(stale=0.5, fail=0.3)
    with Mischief(node.url, rates=rates) as alone, Mischief(node.url, rates=rates) as together:
        calls = [
            {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [place]}
            for place in range(40)
        ]
        fates = [alone.fate(each) for each in calls]
        assert [together.fate(each) for each in calls] == fates
        assert {frozenset(), frozenset({"fail"}), frozenset({"stale"})} <= set(fates)


def test_a_barrier_holds_one_call_of_a_batch(node: FakeNode, mischief: Mischief) -> None:
    barrier = mischief.hold("eth_call", Place.BEFORE_FORWARD)

    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(batch, mischief, SEND, "eth_call", "eth_chainId")
        assert barrier.wait()
        assert node.asked == [SEND]
        barrier.release()
        assert len(reply.result(timeout=60).json()) == 3
    assert node.asked == [SEND, "eth_call", "eth_chainId"]


# On a real node


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with chain_up(tmp_path_factory.mktemp("chain"), INSTANT) as running:
        yield running


def test_a_stale_read_answers_as_the_node_did_some_blocks_ago(chain: Chain) -> None:
    signer = chain.address("SIGNER")
    send(chain, signer, "submitWork", b"\x11" * 32, 7, "item")
    head = chain.head()
    block = chain.rpc("eth_getBlockByNumber", [hex(head), False])
    transaction = block["transactions"][0]
    nonce = int(chain.rpc("eth_getTransactionCount", [signer, "latest"]), 16)

    with Mischief(chain.url, rates=Rates(stale=1, stale_blocks=1)) as mischief:

        def ask(method: str, *parameters: Any) -> Any:
            return call(mischief.url, method, parameters)

        assert ask("eth_blockNumber") == hex(head - 1)
        assert int(ask("eth_getTransactionCount", signer, "latest"), 16) == nonce - 1
        assert ask("eth_getBlockByNumber", "latest", False)["number"] == hex(head - 1)
        assert ask("eth_getBlockByNumber", hex(head), False) is None
        assert ask("eth_getBlockByNumber", hex(head - 1), False)["number"] == hex(head - 1)
        assert ask("eth_getBlockByHash", block["hash"], False) is None
        assert ask("eth_getTransactionReceipt", transaction) is None
        assert ask("eth_getTransactionByHash", transaction)["blockNumber"] is None
        with pytest.raises(RpcError, match="BlockOutOfRangeError"):
            ask("eth_getTransactionCount", signer, hex(head))
        assert mischief.counts()["stale"] == 9
        assert ask("eth_chainId") == hex(31337), "no read of the head"
        assert mischief.counts()["stale"] == 9
        assert {each for each in mischief.counts() if each.startswith("eth_")} <= READS | {
            "eth_chainId"
        }
        answers = httpx.post(
            mischief.url,
            timeout=60,
            json=[
                {"jsonrpc": "2.0", "id": 4, "method": "eth_chainId", "params": []},
                {"jsonrpc": "2.0", "id": 5, "method": "eth_blockNumber", "params": []},
            ],
        ).json()
        assert [each["result"] for each in answers] == [hex(31337), hex(head - 1)], "one of a batch"
        mischief.change(stale=0)
        assert ask("eth_getTransactionReceipt", transaction)["blockNumber"] == hex(head)


def signed(chain: Chain, nonce: int) -> str:
    from eth_account import Account

    signer = chain.accounts[0]
    transaction = {
        "chainId": 31337,
        "nonce": nonce,
        "to": bytes.fromhex(chain.accounts[1].address[2:]),
        "value": 1,
        "gas": 21_000,
        "maxFeePerGas": 10**10,
        "maxPriorityFeePerGas": 10**9,
    }
    return "0x" + bytes(Account.sign_transaction(transaction, signer.key).raw_transaction).hex()


def test_a_dropped_transaction_is_accepted_and_leaves_the_pool(tmp_path: Path) -> None:
    with (
        chain_up(tmp_path / "chain", MANUAL) as chain,
        Mischief(chain.url, rates=Rates(drop=1)) as mischief,
    ):
        accepted = call(mischief.url, SEND, [signed(chain, 0)])

        assert mischief.counts() == {SEND: 1, "drop": 1}
        assert chain.rpc("eth_getTransactionByHash", [accepted]) is None
        chain.mine()
        assert chain.rpc("eth_getTransactionReceipt", [accepted]) is None
        mischief.change(drop=0)
        assert call(mischief.url, SEND, [signed(chain, 0)]) == accepted, "the same bytes again"
        chain.mine()
        assert receipt_of(chain.rpc, accepted)["status"] == "0x1"


# Barriers


def test_a_request_held_before_the_forward_has_not_reached_the_node(
    node: FakeNode, mischief: Mischief
) -> None:
    barrier = mischief.hold(SEND, Place.BEFORE_FORWARD)

    with sent(mischief) as reply:
        assert call(mischief.url, "eth_call", []) == [], "other methods pass"
        assert barrier.wait()
        assert node.asked == ["eth_call"]
        assert not reply.done()
        barrier.release()
        assert reply.result(timeout=60) == ["0x01"]
    assert node.asked == ["eth_call", SEND]
    assert call(mischief.url, SEND, []) == [], "a barrier holds one request"


def test_a_request_held_after_the_forward_has_been_answered_by_the_node(
    node: FakeNode, mischief: Mischief
) -> None:
    barrier = mischief.hold(SEND, Place.AFTER_FORWARD)

    with sent(mischief) as reply:
        assert barrier.wait()
        assert node.asked == [SEND]
        assert not reply.done()
        barrier.release(lose=True)
        with pytest.raises(NodeUnreachable):
            reply.result(timeout=60)


def test_a_request_held_before_the_forward_and_lost_never_reaches_the_node(
    node: FakeNode, mischief: Mischief
) -> None:
    barrier = mischief.hold(SEND, Place.BEFORE_FORWARD)

    with sent(mischief) as reply:
        assert barrier.wait()
        barrier.release(lose=True)
        with pytest.raises(NodeUnreachable):
            reply.result(timeout=60)
    assert node.asked == []


def test_a_barrier_after_the_reply_is_reached_when_the_client_has_it(
    node: FakeNode, mischief: Mischief
) -> None:
    barrier = mischief.hold(SEND, Place.AFTER_REPLY)
    assert not barrier.wait(seconds=0)

    assert call(mischief.url, SEND, ["0x01"]) == ["0x01"]

    assert barrier.wait()
    barrier.release()


def test_a_request_of_a_killed_client_arrives_late_or_never(
    node: FakeNode, mischief: Mischief
) -> None:
    program = f"""if True:
        import sys
        sys.path.insert(0, {str(GATEWAY)!r})
        from chain_rpc import call
        call({mischief.url!r}, {SEND!r}, ["0x01"])
    """
    for lose in (True, False):
        barrier = mischief.hold(SEND, Place.BEFORE_FORWARD)
        with subprocess.Popen([sys.executable, "-c", program]) as client:
            assert barrier.wait()
            client.kill()
        barrier.release(lose=lose)

    assert until(lambda: node.asked == [SEND])
    assert call(mischief.url, "eth_call", []) == []


def until(holds: Callable[[], bool]) -> bool:
    from chain_processes import wait_until

    return wait_until(holds, seconds=60)


# The program


def test_the_program_is_controlled_over_http_and_ends_when_asked(node: FakeNode) -> None:
    command = [sys.executable, str(GATEWAY / "mischief.py"), "--to", node.url, "--seed", "7"]
    options = ["--lose", "0.25", "--delay", "1:5", "--stale", "0.5:3"]

    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().removeprefix("mischief ready: ").strip()
        with httpx.Client(base_url=url, timeout=60) as client:
            shown = client.get("/mischief").json()
            assert (shown["seed"], shown["counts"]) == (7, {})
            rates = Rates(lose=0.25, delay=1, delay_ms=5, stale=0.5, stale_blocks=3)
            assert Rates(**shown["rates"]) == rates
            client.post("/mischief", json={"lose": 0, "delay": 0})
            name = client.post("/mischief", json={"hold": SEND, "at": "before-forward"}).json()
            with ThreadPoolExecutor(1) as pool:
                reply = pool.submit(call, url, SEND, ["0x01"])
                reached = client.get(f"/mischief/{name['barrier']}?seconds=50").json()
                assert reached == {"reached": True}
                assert node.asked == []
                assert client.get("/mischief").json()["reached"] == [name["barrier"]]
                client.post("/mischief", json={"release": name["barrier"]})
                assert reply.result(timeout=60) == ["0x01"]
            assert client.post("/mischief", json={"release": "no"}).status_code == 400
            assert client.post("/mischief", json={"hold": SEND, "at": "no"}).status_code == 400
            assert client.get("/").status_code == 405
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=60) == 0


def test_the_program_refuses_a_share_above_one() -> None:
    command = [sys.executable, str(GATEWAY / "mischief.py"), "--to", "http://127.0.0.1:1"]

    ran = subprocess.run(
        [*command, "--lose", "2"], check=False, capture_output=True, text=True, timeout=120
    )

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "lose: expected a share from 0 to 1, found 2.0" in ran.stderr

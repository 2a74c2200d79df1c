"""The benchmark of the gateway: a lane's steps, the bare client, small runs, tables and aims."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from anvil import AnvilMissing
from benchmarks.bench_world import STAGES, BenchWorld
from benchmarks.gateway import MANIFEST
from benchmarks.gateway.__main__ import BENCHMARK, Options
from benchmarks.gateway.bare_client import BareClient, Unexpected, calldata
from benchmarks.gateway.lane_steps import (
    ARRIVES,
    LANE,
    SETTLED,
    STEPS,
    LaneUnderTest,
    measure_lane_steps,
)
from benchmarks.gateway.loads import WORKER, submit_work
from benchmarks.gateway.rates import BARE, measure_instant, measure_signers
from benchmarks.gateway.tables import gateway_aims, gateway_tables
from chain import Chain, ChainError
from studio import receipt_of

from aos.sandbox.stack import run_on_big_stack
from aos_gateway.evm.blocks import Blocks
from aos_gateway.evm.chain_reads import ChainReads
from aos_gateway.evm.fate_wait import Pacing, await_fate
from aos_gateway.evm.inputs import call_params, quote_params, receipt_params, submit_params
from aos_gateway.evm.json_rpc import RpcCall, RpcError
from aos_gateway.evm.rpc_connections import RpcConnections, RpcNode, parse_nodes
from aos_gateway.evm.tx_quote import quote
from aos_gateway.evm.tx_submit import submit
from aos_gateway.evm.view_call import call_view
from benchmarks import report, scratch
from tests.benchmarks.test_report import MACHINE
from tests.gateway.real_chain import chain_up, require_anvil

pytestmark = pytest.mark.rotated(3)

CHAIN = 31337


def step_row(step: str, waiting: int, ratio: float) -> dict[str, Any]:
    return {
        "step": step,
        "waiting": waiting,
        "queue_bytes": 900 * waiting,
        "kernel_us": 500.0 * ratio,
        "ratio": ratio,
        "whole_ratio": ratio,
        "stages_us": dict.fromkeys(STAGES, 100.0),
    }


def signers_row(count: int, rate: float) -> dict[str, Any]:
    return {
        "signers": count, "round": 0, "works": 2 * count, "seconds": 2 * count / rate, "rate": rate,
        "records": 34.0, "journal_bytes": 27_000.4, "store_bytes": 90_000.0,
    }  # fmt: skip


FOUND: dict[str, Any] = {
    "at": "2026-01-01", "seconds": 1, "machine": MACHINE, "module_bytes": 187_000, "missing": [],
    "instant": {
        "arweave_ms": 100,
        "scores": 2,
        # The median of the ratios is not the ratio of the medians.
        "rounds": [
            {"lane": 40.0, "bare": 100.0}, {"lane": 10.0, "bare": 20.0},
            {"lane": 30.0, "bare": 90.0},
        ],
        "work": {
            "works": 1, "seconds": 0.61, "chain_seconds": 0.12, "records": 34,
            "journal_bytes": 27_780,
        },
    },
    "signers": {
        "block_s": 1.0, "conf": 1,
        "rows": [signers_row(1, 0.5), signers_row(16, 6.0), signers_row(1, 0.4)],
    },
    "steps": [
        step_row(ARRIVES, 0, 1.0), step_row(ARRIVES, 256, 3.0),
        step_row(SETTLED, 0, 1.0), step_row(SETTLED, 256, 2.0),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Worlds in one folder compile the module once."""
    return tmp_path_factory.mktemp("gateway")


def test_each_turn_is_one_step_of_a_lane_whose_queue_keeps_its_length(folder: Path) -> None:
    def run() -> None:
        with BenchWorld(folder / "turns", MANIFEST) as world:
            lane = LaneUnderTest(world, 1, 3)
            for number in range(2):
                before = world.state(LANE, lane.key)
                turns = lane.send_one()
                after = world.state(LANE, lane.key)

                assert set(turns) == set(STEPS)
                assert {len(turn.calls) for turn in turns.values()} == {1}
                assert before["queued"] == after["queued"] == 2
                assert after["error"] is None
                assert (after["next_nonce"], len(after["landed"])) == (number + 1, number + 1)

    run_on_big_stack(run)


def test_a_step_is_measured_for_each_length_of_the_queue(folder: Path) -> None:
    def run() -> list[dict[str, Any]]:
        return measure_lane_steps(folder / "lengths", (0, 4), 2)

    found: list[dict[str, Any]] = run_on_big_stack(run)

    assert [(each["step"], each["waiting"]) for each in found] == [
        (step, waiting) for step in STEPS for waiting in (0, 4)
    ]
    for each in found:
        assert each["kernel_us"] > each["stages_us"]["sandbox"] > 0
        assert (each["queue_bytes"] > 0) is (each["waiting"] > 0)
        assert (each["ratio"] == 1) is (each["waiting"] == 0)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with chain_up(tmp_path_factory.mktemp("bench") / "chain") as found:
        yield found


class _Recorder:
    """The connections of the executor, and the requests that they carry."""

    def __init__(self, node: RpcNode, methods: list[str]) -> None:
        self._connections = RpcConnections(node)
        self._methods = methods
        self.node = node

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        self._methods.append(method)
        return await self._connections.ask(method, params)

    @property
    def takes_batches(self) -> bool:
        return self._connections.takes_batches

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]:
        self._methods += [each.method for each in calls]
        return await self._connections.ask_all(calls)

    async def aclose(self) -> None:
        await self._connections.aclose()


def test_the_bare_client_makes_the_requests_of_the_executor(chain: Chain) -> None:
    """Else it would be no measure of what the gateway adds."""
    worker = chain.accounts[WORKER].address
    hashes = [submit_work(chain, name) for name in ("executor", "bare")]
    methods: list[str] = []
    asyncio.run(_registered_by_the_executor(chain, hashes[0], methods))
    counted: list[str] = []

    with BareClient(chain, chain.accounts[BARE]) as bare:
        bare.on_request = counted.append
        data, done = _register(hashes[1])
        bare.view(done)
        found = bare.quote(data, guard=done)
        sent = bare.submit(data, found)
        receipt = receipt_of(chain.rpc, sent)
        number = bare.look(sent, found.nonce)
        assert number == receipt["blockNumber"]
        assert number is not None
        assert bare.view(done, number) != bytes(32)

    assert Counter(counted) == Counter(methods)
    assert len(counted) == 16
    assert worker != chain.accounts[BARE].address


def _register(data_hash: bytes) -> tuple[str, str]:
    """A transaction that anyone may send, and the view that tells whether it is done."""
    submit_data = calldata("submitWork(bytes32,uint64,string)", data_hash[::-1], 7, "item")
    return submit_data, calldata("submitterOf(bytes32)", data_hash[::-1])


async def _registered_by_the_executor(chain: Chain, hash: bytes, methods: list[str]) -> None:
    [node] = parse_nodes(chain.env["AOS_EVM_RPC"]).values()
    connections = _Recorder(node, methods)
    blocks = Blocks(ChainReads(connections))
    data, done = (bytes.fromhex(each[2:]) for each in _register(hash))
    account = chain.accounts[BARE]
    keys = {"alias": "gw/evm-keys", "version": 1}
    call: dict[str, Any] = {"chain": CHAIN, "to": chain.studio, "data": done}
    to_sign: dict[str, Any] = {
        "chain": CHAIN, "signer": account.address, "to": chain.studio, "data": data, "value": "0",
    }  # fmt: skip
    guard = {"to": chain.studio, "data": done, "undone": bytes(32)}
    try:
        at_head = {"$tag": "Depth", "$value": 1}
        await call_view(blocks, call_params(call | {"block": at_head}))
        quoted = await quote(blocks, quote_params(to_sign | {"conf": 1, "guard": guard}))
        ready = quoted["quote"]["$value"]
        fees = {"max_fee": 2 * ready["base_fee"] + ready["tip"], "max_tip": ready["tip"]}
        given = to_sign | {"keys": keys, "nonce": ready["nonce"], "gas": ready["gas"]} | fees
        sent = await submit(
            blocks.reads, submit_params(given), secret=account.key, name="gw/evm-keys@1"
        )
        receipt_of(chain.rpc, sent["hash"])
        waited = {
            "nonce": ready["nonce"], "hashes": [sent["hash"]], "conf": 1, "since": 0, "wait_ms": 1,
        }  # fmt: skip
        pacing = Pacing(now=lambda: 0.0)
        fate = await await_fate(blocks, receipt_params(to_sign | waited), pacing)
        block = {"$tag": "Number", "$value": fate["fate"]["$value"]["block"]}
        await call_view(blocks, call_params(call | {"block": block}))
    finally:
        await connections.aclose()


def test_the_bare_client_sends_each_transaction_once(chain: Chain) -> None:
    hash, worker = submit_work(chain, "once"), chain.accounts[WORKER].address

    with BareClient(chain, chain.accounts[BARE]) as bare:
        bare.score(hash, worker)
        with pytest.raises(Unexpected, match="the step is done already"):
            bare.score(hash, worker)
        with pytest.raises(Unexpected, match="no one has submitted the work"):
            bare.score(bytes(32), worker)


def test_a_small_run_on_instant_blocks_counts_transactions_and_records(tmp_path: Path) -> None:
    require_anvil()

    found = measure_instant(tmp_path / "instant", scores=1, works=1, rounds=1)

    assert len(found["rounds"]) == 1
    assert min(found["rounds"][0].values()) > 0
    work = found["work"]
    assert work["seconds"] > work["chain_seconds"] > 0
    # Its event, eleven effects with their answers, and the steps of the work and of its lane.
    assert 30 <= work["records"] <= 50
    assert work["journal_bytes"] > 100 * work["records"]


def test_works_of_each_signer_are_completed(tmp_path: Path) -> None:
    require_anvil()

    found = measure_signers(tmp_path / "works", signers=(2,), works=1, rounds=1, block_s=0.25)

    [row] = found["rows"]
    assert (row["signers"], row["works"]) == (2, 2)
    assert row["rate"] == pytest.approx(2 / row["seconds"])
    assert row["store_bytes"] > row["journal_bytes"] > 0


def test_tables_and_aims_of_the_gateway_are_of_the_medians() -> None:
    text = gateway_tables(FOUND)

    assert "| one lane: a queue of scores | 30.0 | 0.40 |" in text
    assert "| 16 | 32 | 5.3 | 6.00 | 15.00 | 34 | 27,000 | 90,000 |" in text
    assert "## The gateway" in report.render(None, None, "", gateway=FOUND)
    assert [(each.found, each.is_met) for each in gateway_aims(FOUND)] == [
        ("0.40 times: 30.0/s and 90.0/s", True),
        ("15.0 times: 6.00/s and 0.40/s", True),
        (f"3.00 times: {ARRIVES}", True),
    ]


def test_an_aim_of_the_gateway_is_missed_just_beyond_its_bound() -> None:
    worse = deepcopy(FOUND)
    worse["instant"]["rounds"] = [{"lane": 39.9, "bare": 100.0}]
    worse["signers"]["rows"] = [signers_row(1, 0.5), signers_row(16, 5.9)]
    worse["steps"].append(step_row(SETTLED, 256, 3.01))

    assert [each.is_met for each in gateway_aims(worse)] == [False, False, False]


def test_without_anvil_a_lane_is_measured_and_a_sentence_says_what_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> Path:
        raise AnvilMissing("anvil was not found: run `make gateway-tools`, which installs it")

    monkeypatch.setattr("benchmarks.gateway.__main__.find_anvil", find)

    found = BENCHMARK.run(Options(waiting=(0,), steps=1), folder)

    assert len(found["steps"]) == len(STEPS)
    assert "Not measured: no transaction was sent to a real node: anvil was not found: run " in (
        gateway_tables(found)
    )
    assert {each.is_met for each in (*gateway_aims(found), *gateway_aims(None))} == {None}


def test_a_chain_that_fails_ends_the_run_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ChainError("the node does not answer")

    monkeypatch.setattr(scratch, "MEMORY", frozenset())
    monkeypatch.setattr("benchmarks.gateway.__main__._steps", lambda *_: [])
    monkeypatch.setattr("benchmarks.gateway.__main__.find_anvil", lambda: None)
    monkeypatch.setattr("benchmarks.gateway.__main__._on_chains", fail)

    assert BENCHMARK.main(["--quick", "--dir", str(tmp_path)]) == 1
    assert "benchmarks: the node does not answer" in capsys.readouterr().err

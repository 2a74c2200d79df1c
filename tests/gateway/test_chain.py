"""``chain.py``: a node, a stub and a contract that start, are killed, resume, and end by id."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anvil
import chain_files
import chain_processes
import pytest
from anvil import AnvilMissing, find_anvil
from chain import Chain, ChainError, NodeUnreachable, RpcError, Settings
from chain_processes import Background, free_port, start, wait_until
from chain_state import is_whole
from eth_account import Account
from studio import receipt_of

from aos.host.folder.secrets import read_secrets
from aos_gateway.arweave.upload_keys import read_keys
from tests.gateway import GATEWAY
from tests.gateway.real_chain import INSTANT, MANUAL, chain_up, environment, require_anvil
from tests.gateway.studio_calls import send, view
from tests.running_process import is_running

WORK = b"\x11" * 32


def command(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run chain.py as a user does."""
    return subprocess.run(
        [sys.executable, GATEWAY / "chain.py", *words],
        check=False,
        capture_output=True,
        text=True,
        env=environment(**variables),
    )


@pytest.fixture
def manual(tmp_path: Path) -> Iterator[Chain]:
    with chain_up(tmp_path / "chain", MANUAL) as chain:
        yield chain


def transfer(chain: Chain, value: int = 1) -> str:
    """Send a transaction from the first signer to the second; return its hash."""
    signer, other = chain.address("SIGNER"), chain.address("SIGNER2")
    request = {"from": signer, "to": other, "value": hex(value), "gas": hex(21_000)}
    return str(chain.rpc("eth_sendTransaction", [request]))


def block_hash(chain: Chain, number: int) -> str:
    return str(chain.rpc("eth_getBlockByNumber", [hex(number), False])["hash"])


def written_head(state: Path) -> int | None:
    """The last block in the file of the node; None while the node writes it."""
    try:
        kept = json.loads(state.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return int(kept["best_block_number"])


def time_of_head(chain: Chain) -> int:
    return int(chain.rpc("eth_getBlockByNumber", ["latest", False])["timestamp"], 16)


# Up


def test_a_chain_is_ready_when_up_returns_and_its_files_lead_to_all_parts(tmp_path: Path) -> None:
    require_anvil()
    folder = tmp_path / "a folder"

    ran = command("up", folder, "--block-time", "0.2")

    try:
        assert (ran.returncode, ran.stderr) == (0, "")
        names = ["AOS_EVM_RPC", "AOS_ARWEAVE", "STUDIO", "ARWEAVE_WALLET", *chain_files.ROLES]
        script = f'. "$1"; for each in {" ".join(names)}; do eval echo \\$$each; done'
        shown = subprocess.run(
            ["sh", "-c", script, "-", str(folder / "env")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        found = dict(zip(names, shown, strict=True))
        chain = Chain.open(folder)
        assert found["AOS_EVM_RPC"] == f"31337={chain.url}"
        assert found["STUDIO"] == chain.studio
        assert len(chain.rpc("eth_getCode", [found["STUDIO"], "latest"])) > 1000
        assert found["SIGNER"] == chain.accounts[0].address
        balance = f"{chain.arweave_url}/wallet/{found['ARWEAVE_WALLET']}/balance"
        assert found["AOS_ARWEAVE"] == f"main={chain.arweave_url}"
        with urllib.request.urlopen(balance) as answer:
            assert int(answer.read()) > 10**12
        head = chain.head()
        assert wait_until(lambda: chain.head() > head + 1, seconds=60), "blocks come by time"
    finally:
        assert command("down", folder).returncode == 0
    with pytest.raises(NodeUnreachable):
        chain.head()


def test_the_secrets_are_for_their_owner_alone_and_the_executors_can_read_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secrets"
    old = os.umask(0)
    try:
        chain_files.write_secrets(file)
    finally:
        os.umask(old)

    values = read_secrets(file).values
    keys = values["gateway.evm-keys"].decode().split(",")
    accounts = chain_files.accounts()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [Account.from_key(key).address.lower() for key in keys] == [
        accounts[index].address for index in chain_files.SIGNERS
    ]
    assert accounts[chain_files.ROLES["STRANGER"]].key not in keys
    wallet = read_keys(values["gateway.arweave-key"].decode())
    assert wallet.address == chain_files.arweave_address()
    assert wallet.item_seed.hex() == chain_files.ITEM_SEED
    assert max(len(value) for value in values.values()) <= 32_768, "X-67"


def test_the_committed_accounts_are_those_of_the_node(manual: Chain) -> None:
    assert manual.rpc("eth_accounts") == [each.address for each in manual.accounts]
    for each in manual.accounts:
        assert Account.from_key(each.key).address.lower() == each.address


def test_a_second_up_is_refused_and_the_first_chain_continues(manual: Chain) -> None:
    pid = manual.pid()

    ran = command("up", manual.folder)

    assert ran.returncode == 1
    assert f"a chain runs here (anvil is process {pid})" in ran.stderr
    assert f"`chain.py down {manual.folder}`" in ran.stderr
    assert manual.mine() == 2
    assert Chain.open(manual.folder).pid() == pid


def test_two_commands_at_a_time_on_one_folder_are_refused(tmp_path: Path) -> None:
    require_anvil()
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(ChainError, match="another command works on this chain"):
            Chain.up(tmp_path, INSTANT)

    assert not (tmp_path / "chain.json").exists()


def test_a_port_in_use_is_named(manual: Chain, tmp_path: Path) -> None:
    port = manual.settings.port

    ran = command("up", tmp_path / "other", "--port", str(port))

    assert ran.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use" in ran.stderr
    assert not (tmp_path / "other" / "chain.json").exists()


def test_anvil_is_taken_from_its_variable_then_the_tools_then_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "anvil"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(anvil, "TOOLS", tmp_path / "tools")

    monkeypatch.setenv("AOS_ANVIL", str(tmp_path / "no"))
    with pytest.raises(
        AnvilMissing, match=r"AOS_ANVIL: expected the path of a program, found .*no"
    ):
        find_anvil()
    monkeypatch.delenv("AOS_ANVIL")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnvilMissing, match=r"run `make gateway-tools`"):
        find_anvil()
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_anvil() == program
    monkeypatch.setenv("AOS_ANVIL", sys.executable)
    assert find_anvil() == Path(sys.executable)


def test_without_anvil_the_command_says_what_to_run(tmp_path: Path) -> None:
    ran = command("up", tmp_path / "chain", AOS_ANVIL=str(tmp_path / "no"))

    assert ran.returncode == 3
    assert ran.stderr.startswith("chain.py: AOS_ANVIL: expected the path of a program")
    assert not (tmp_path / "chain").exists()


def test_a_node_that_ends_at_its_start_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "anvil"
    program.write_text("#!/bin/sh\necho this machine is too old >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("AOS_ANVIL", str(program))

    with pytest.raises(ChainError, match=r"anvil has ended; see .*anvil\.log: this machine is too"):
        Chain.up(tmp_path / "chain", INSTANT)


# Kill and restart


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_no_node_behind(tmp_path: Path, number: int) -> None:
    silent, began = tmp_path / "silent", tmp_path / "pid"
    silent.write_text(
        f"#!/bin/sh\necho $$ > {began}.new && mv {began}.new {began}\nexec sleep 600\n"
    )
    silent.chmod(0o755)
    # A run in the background of a shell ignores SIGINT, and so would its programs.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, GATEWAY / "chain.py", "up", tmp_path / "chain"],
        env=environment(AOS_ANVIL=str(silent)),
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert wait_until(began.exists, seconds=90)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=90)

    assert (process.returncode, stderr) == (130, "chain.py: interrupted\n")
    assert not is_running(int(began.read_text()))


def test_a_process_that_ends_just_before_the_look_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = start(["/bin/sleep", "600"], log=tmp_path / "log")
    entry = Path(f"/proc/{sleeper.pid}")

    def mark_after_its_end(pid: int) -> str | None:
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: ") Z " in (entry / "stat").read_text(), seconds=90)
        return process_mark(pid)

    process_mark = chain_processes._mark
    monkeypatch.setattr(chain_processes, "_mark", mark_after_its_end)

    assert not sleeper.is_alive()
    assert not entry.exists()


def test_a_killed_node_keeps_its_blocks_and_loses_its_pool(manual: Chain) -> None:
    mined = transfer(manual, 1)
    head = manual.mine(3)
    pending = transfer(manual, 2)
    before = block_hash(manual, head)
    url, studio = manual.url, manual.studio
    assert manual.rpc("eth_getTransactionByHash", [pending])["blockNumber"] is None

    manual.kill()

    with pytest.raises(NodeUnreachable):
        manual.head()
    manual.restart()
    assert (manual.url, manual.studio, manual.head()) == (url, studio, head)
    assert block_hash(manual, head) == before
    assert receipt_of(manual.rpc, mined)["status"] == "0x1"
    assert manual.rpc("eth_getTransactionByHash", [pending]) is None
    signer = manual.address("SIGNER")
    assert [
        int(manual.rpc("eth_getTransactionCount", [signer, hex(block)]), 16)
        for block in (1, 2, head)
    ] == [0, 1, 1], "reads at earlier blocks are possible after a restart"
    deployer = manual.accounts[chain_files.DEPLOYER].address
    assert manual.rpc("eth_getTransactionCount", [deployer, "latest"]) == "0x1"


def test_any_kill_is_followed_by_a_restart_from_the_last_whole_write(manual: Chain) -> None:
    state = manual.folder / chain_files.STATE
    written = manual.mine(2)
    before = block_hash(manual, written)
    assert wait_until(lambda: written_head(state) == written, seconds=60)
    manual.mine(5)

    manual.kill(loses_blocks=True)
    assert is_whole(state)
    manual.restart()

    assert written <= manual.head() <= written + 5
    assert block_hash(manual, written) == before


def test_a_restart_after_a_moved_clock_never_takes_time_back(manual: Chain) -> None:
    manual.rpc("evm_increaseTime", [100_000])
    manual.mine()
    before = time_of_head(manual)

    manual.restart()
    manual.mine()

    assert time_of_head(manual) >= before


def test_a_chain_that_was_ended_continues_without_a_second_contract(tmp_path: Path) -> None:
    folder = tmp_path / "chain"
    settings = replace(INSTANT, has_arweave=True, arweave_block_ms=0)
    with chain_up(folder, settings) as first:
        send(first, first.address("SIGNER"), "submitWork", WORK, 7, "item")
        head, url = first.head(), first.url

    with chain_up(folder, settings) as again:
        assert (again.studio, again.url, again.head()) == (first.studio, url, head)
        assert view(again, "submitterOf", WORK) == again.address("SIGNER")
        assert again.arweave_url == first.arweave_url
        assert again.running().count("is process") == 2

    assert again.running() == ""


def test_a_process_that_was_restarted_elsewhere_is_the_one_that_ends(manual: Chain) -> None:
    other = Chain.open(manual.folder)
    other.restart()
    assert manual.pid() != other.pid()

    manual.down()

    assert not other.is_alive()


def test_a_state_that_a_kill_has_cut_is_named(manual: Chain) -> None:
    manual.down()
    state = manual.folder / chain_files.STATE
    state.write_bytes(state.read_bytes()[:-100])

    with pytest.raises(ChainError, match=r"state\.json: a kill has cut the file while anvil wrote"):
        manual.restart()


def test_without_state_a_restart_begins_a_new_chain_with_the_contract(tmp_path: Path) -> None:
    with chain_up(tmp_path / "chain", replace(MANUAL, keeps_state=False)) as chain:
        chain.mine(5)

        chain.restart()

        assert chain.head() == 1
        assert view(chain, "worksIn", 7) == 0


# Down


def test_down_ends_no_process_that_has_only_the_same_id(manual: Chain, tmp_path: Path) -> None:
    stranger = start(
        ["/bin/sh", "-c", "while :; do read _ < /dev/zero; done"], log=tmp_path / "log"
    )
    try:
        file = manual.folder / "chain.json"
        kept = chain_files.read(file)
        node = dict(kept["processes"]["anvil"])
        kept["processes"]["anvil"] = {"pid": stranger.pid, "mark": node["mark"]}
        file.write_text(json.dumps(kept))

        manual.down()

        assert stranger.is_alive()
    finally:
        stranger.send(signal.SIGKILL)
        Background(**node).kill()


def test_down_twice_and_of_no_chain(tmp_path: Path) -> None:
    with chain_up(tmp_path / "chain") as chain:
        chain.down()
        chain.down()

    ran = command("down", tmp_path / "no")

    assert ran.returncode == 1
    assert "there is no chain: `chain.py up" in ran.stderr


def test_a_free_port_is_given_and_a_used_one_refused(manual: Chain) -> None:
    assert free_port() != manual.settings.port
    with pytest.raises(ChainError):
        free_port(manual.settings.port)


def test_an_error_of_the_node_has_its_code_and_data(manual: Chain) -> None:
    request = {"to": manual.studio, "data": "0x" + "ff" * 4}

    with pytest.raises(RpcError) as refused:
        manual.rpc("eth_call", [request, "latest"])

    assert (refused.value.code, refused.value.data) == (3, "0x")


def test_settings_survive_in_the_folder(tmp_path: Path) -> None:
    settings = Settings(block_time=0.5, automine=True, has_arweave=False, reveal_delay=9)
    with chain_up(tmp_path / "chain", settings) as chain:
        kept = Chain.open(chain.folder).settings

        assert replace(kept, port=0) == settings
        head = chain.head()
        receipt_of(chain.rpc, transfer(chain))
        assert wait_until(lambda: chain.head() >= head + 2, seconds=60), "both kinds of blocks"

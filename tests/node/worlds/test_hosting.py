"""A node with many worlds: routes, processes, rest and commands (spec/worlds.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from aos.errors import BadUsage, Refused, Unavailable
from aos.node.sockets import ListenAddress
from aos.node.tokens import Scope, create
from aos.node.worlds import hosted_world
from aos.node.worlds.worlds_folder import WorldsFolder
from tests.node.worlds.hosts import Host, fall_asleep, host, run, until
from tests.running_process import is_running


def test_a_world_is_started_by_its_first_request_and_stays(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            await asyncio.sleep(0.3)
            assert made.starts("shop") == [] == made.starts("bank")
            first = (await client.get("/w/shop/echo")).json()
            second = (await client.get("/w/shop/echo")).json()
            assert first["pid"] == second["pid"] == made.starts("shop")[0]
            assert made.starts("bank") == []

    run(story())


def test_a_request_and_its_answer_pass_unchanged(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            answer = await client.post(
                "/w/shop/a%2Fb/echo?x=1&y=%20",
                content=b"\x00body",
                headers=[
                    ("idempotency-key", "k-1"), ("aos-peer", "1.2.3.4"), ("x-of", "a"),
                    ("x-of", "b"),
                ],
            )  # fmt: skip
            seen = answer.json()
            assert answer.status_code == 418
            assert answer.headers.get_list("x-of") == ["one", "two"]
            assert len(answer.headers.get_list("date")) == 1
            assert (seen["method"], seen["body"]) == ("POST", "\x00body")
            assert seen["target"] == "/w/shop/a%2Fb/echo?x=1&y=%20"
            headers = [tuple(pair) for pair in seen["headers"]]
            assert ("idempotency-key", "k-1") in headers
            assert [value for name, value in headers if name == "aos-peer"] == ["127.0.0.1"]
            assert [value for name, value in headers if name == "x-of"] == ["a", "b"]
            assert ("host", made.url.removeprefix("http://")) in headers
            names = [name for name, _ in headers]
            assert "connection" not in names
            assert "user-agent" in names
            assert names.count("host") == 1

    run(story())


def test_a_body_without_a_length_passes_in_parts(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async def parts() -> AsyncIterator[bytes]:
            for part in (b"one ", b"two ", b"three"):
                yield part
                await asyncio.sleep(0.01)

        async with made.hosting(), made.http() as client:
            seen = (await client.post("/w/shop/echo", content=parts())).json()
            assert seen["body"] == "one two three"
            head = await client.head("/w/shop/echo")
            assert head.status_code == 418
            assert head.content == b""
            assert (await client.get("/w/shop/echo")).status_code == 418

    run(story())


def test_an_answer_passes_as_it_comes(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with (
            made.hosting(),
            made.http() as client,
            client.stream("GET", "/w/shop/parts") as answer,
        ):
            parts = answer.aiter_raw()
            assert await anext(parts) == b"first "
            (made.path / "shop" / "go").touch()
            assert await anext(parts) == b"second"

    run(story())


def test_a_front_notices_that_a_client_has_left(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            await client.get("/w/shop/echo")
            asking = asyncio.create_task(client.get("/w/shop/left"))
            await until((made.path / "shop" / "asked").exists)
            asking.cancel()
            await until((made.path / "shop" / "left").exists)

    run(story())


def test_an_answer_that_a_death_cuts_off_is_incomplete_or_a_problem(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            answer = await client.post("/w/shop/die", content=b"x")
            assert answer.status_code == 503
            assert answer.json()["rule"] == "answer_was_lost"
            assert "same submission id" in answer.json()["detail"]
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/w/shop/broken")
            assert (await client.get("/w/shop/echo")).status_code == 418
            assert len(made.starts("shop")) == 3

    run(story())


def test_a_world_that_dies_is_started_again_without_a_request(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            bank = (await client.get("/w/bank/echo")).json()["pid"]
            shop = (await client.get("/w/shop/echo")).json()["pid"]
            os.kill(shop, signal.SIGKILL)
            await until(lambda: len(made.starts("shop")) == 2)
            assert (await client.get("/w/bank/echo")).json()["pid"] == bank
            assert any("shop died (signal 9)" in report for report in made.reports)

    run(story())


@pytest.mark.parametrize(("start", "tries"), [("die", 3), ("refuse", 1)])
def test_a_world_that_does_not_start_fails_alone_and_says_why(
    tmp_path: Path, start: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_world, "BACKOFF_S", 0.01)
    monkeypatch.setattr(hosted_world, "QUICK_DEATHS_MAX", 3)
    made = host(tmp_path, "shop", "bank")
    made.behave("shop", start=start)

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            answer = await client.get("/w/shop/echo")
            assert (answer.status_code, answer.json()["rule"]) == (503, "world_has_failed")
            assert "output of the node" in answer.json()["detail"]
            assert int(answer.headers["retry-after"]) > 0
            assert len(made.starts("shop")) == tries
            assert await made.phase("shop") == "failed"
            assert (await client.get("/w/bank/echo")).status_code == 418
            made.behave("shop")
            async with made.own() as own:
                await own.post("/v1/worlds/start", json={"name": "shop"})
            assert (await client.get("/w/shop/echo")).status_code == 418

    run(story())


def test_a_world_without_work_rests_and_is_woken_by_a_request(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(idle_s=0.1), made.http() as client:
            first = (await client.get("/w/shop/echo")).json()["pid"]
            await made.until_phase("shop", "asleep")
            second = (await client.get("/w/shop/echo")).json()["pid"]
            assert made.starts("shop") == [first, second]

    run(story())


def test_a_request_that_meets_a_resting_world_waits_for_the_next_process(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")
    made.behave("shop", ends_with="may_end")

    async def story() -> None:
        async with made.hosting(idle_s=0.1), made.http() as client:
            first = (await client.get("/w/shop/echo")).json()["pid"]
            await made.until_phase("shop", "resting")
            asking = asyncio.create_task(client.get("/w/shop/echo"))
            await asyncio.wait({asking}, timeout=0.5)
            assert not asking.done()
            (made.path / "shop" / "may_end").touch()
            assert (await asking).json()["pid"] != first

    run(story())


def test_a_world_with_work_does_not_rest(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")
    made.behave("shop", rest="busy")

    async def story() -> None:
        async with made.hosting(idle_s=0.05), made.http() as client:
            pid = (await client.get("/w/shop/echo")).json()["pid"]
            await asyncio.sleep(2.5)
            assert (await client.get("/w/shop/echo")).json()["pid"] == pid

    run(story())


def test_a_request_in_progress_keeps_a_world_up(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(idle_s=0.05), made.http() as client:
            async with client.stream("GET", "/w/shop/parts") as answer:
                parts = answer.aiter_raw()
                await anext(parts)
                await asyncio.sleep(2.5)
                (made.path / "shop" / "go").touch()
                assert await anext(parts) == b"second"
            assert len(made.starts("shop")) == 1

    run(story())


def test_a_sleeping_world_is_woken_at_its_time(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")
    wake_ns = time.time_ns() + 2_000_000_000
    fall_asleep(made.path, "shop", wake_ns)
    fall_asleep(made.path, "bank", wake_ns + 3_600_000_000_000)

    async def story() -> None:
        async with made.hosting():
            await until(lambda: len(made.starts("shop")) == 1)
            assert (made.path / "shop" / "starts").stat().st_mtime_ns >= wake_ns
            assert made.starts("bank") == []

    run(story())


def test_a_world_of_which_nothing_is_known_is_started(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank", "mill")
    (made.path / "shop" / "node" / "hosted.json").unlink()
    (made.path / "bank" / "node" / "hosted.json").write_text('{"version": 1')

    async def story() -> None:
        async with made.hosting():
            await until(lambda: bool(made.starts("shop") and made.starts("bank")))
            assert made.starts("mill") == []

    run(story())


def test_a_sleeping_world_is_started_when_another_process_has_written_it(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting():
            await asyncio.sleep(1.2)
            assert made.starts("shop") == []
            data = made.path / "shop" / "store" / "data.mdb"
            os.utime(data, ns=(1, 2))
            await until(lambda: len(made.starts("shop")) == 1)

    run(story())


def test_a_world_that_ended_with_work_is_started_again(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")
    made.behave("shop", has_work=True)

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            await client.get("/w/shop/echo")
        assert len(made.starts("shop")) == 1
        async with made.hosting():
            await until(lambda: len(made.starts("shop")) == 2)

    run(story())


def test_a_stopped_world_stays_stopped(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> None:
        async with made.hosting(), made.http() as client, made.own() as own:
            await client.get("/w/shop/echo")
            stopped = (await own.post("/v1/worlds/stop", json={"name": "shop"})).json()
            assert (stopped["name"], stopped["phase"], stopped["pid"]) == ("shop", "stopped", None)
            answer = await client.get("/w/shop/echo")
            assert (answer.status_code, answer.json()["rule"]) == (503, "world_is_stopped")
        async with made.hosting(), made.http() as client, made.own() as own:
            await asyncio.sleep(1.2)
            assert len(made.starts("shop")) == 1
            assert (await client.get("/w/shop/echo")).status_code == 503
            await own.post("/v1/worlds/start", json={"name": "shop"})
            assert (await client.get("/w/shop/echo")).status_code == 418

    run(story())


def test_worlds_are_made_and_removed_while_the_node_runs(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.http() as client, made.own() as own:
            created = await own.post("/v1/worlds/create", json={"name": "bank"})
            bank = created.json()
            assert created.status_code == 200
            made.behave("bank")
            assert (made.path / "bank" / "keys" / "operator.key").exists()
            again = await own.post("/v1/worlds/create", json={"name": "bank"})
            assert again.status_code in (400, 409)
            assert (await client.get("/w/bank/echo")).status_code == 418
            remove = {"name": "bank", "world": bank["world"]}
            early = await own.post("/v1/worlds/remove", json=remove)
            assert (early.status_code, early.json()["rule"]) == (409, "world_is_not_stopped")
            await own.post("/v1/worlds/stop", json={"name": "bank"})
            shop = (await own.get("/v1/worlds")).json()["worlds"][1]["world"]
            other = await own.post("/v1/worlds/remove", json={"name": "bank", "world": shop})
            assert other.status_code == 404
            assert (made.path / "bank" / "world.json").exists()
            removed = await own.post("/v1/worlds/remove", json=remove)
            assert removed.json() == {"removed": "bank", "world": bank["world"]}
            assert sorted(path.name for path in made.path.iterdir()) == ["node", "shop"]
            gone = await client.get("/w/bank/echo")
            assert (gone.status_code, gone.json()["rule"]) == (404, "world_is_unknown")

    run(story())


def test_an_interrupted_removal_is_finished_by_the_next_node(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")
    (made.path / "bank").rename(made.path / ".removed-bank-0011")

    async def story() -> None:
        async with made.hosting():
            assert [path.name for path in made.path.iterdir() if "bank" in path.name] == []

    run(story())


@pytest.mark.parametrize(
    ("method", "path", "status", "rule"),
    [
        ("GET", "/w/nothing/v1/world", 404, "world_is_unknown"),
        ("GET", "/w/Shop/v1/world", 404, "path_is_unknown"),
        ("GET", "/w/../etc/passwd", 404, "path_is_unknown"),
        ("GET", "/w/", 404, "path_is_unknown"),
        ("GET", "/else", 404, "path_is_unknown"),
        ("GET", "/v1/world", 404, "path_is_unknown"),
        ("GET", "/static/../page_app.py", 404, "path_is_unknown"),
        ("POST", "/v1/worlds", 405, "method_is_not_allowed"),
        ("GET", "/v1/worlds/create", 405, "method_is_not_allowed"),
        ("POST", "/", 405, "method_is_not_allowed"),
    ],
)
def test_a_request_that_no_world_answers(
    tmp_path: Path, method: str, path: str, status: int, rule: str
) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> None:
        async with made.hosting():
            reader, writer = await asyncio.open_unix_connection(str(made.own_socket))
            writer.write(
                f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
            )
            answer = (await reader.read()).decode()
            writer.close()
            assert answer.startswith(f"HTTP/1.1 {status} ")
            assert f'"rule": "{rule}"' in answer or f'"rule":"{rule}"' in answer

    run(story())


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("create", b"{"),
        ("create", b"[]"),
        ("create", b"{}"),
        ("create", b'{"name": 3}'),
        ("create", b'{"name": "Shop"}'),
        ("create", b'{"name": "node"}'),
        ("create", b'{"name": "../x"}'),
        ("create", b'{"name": "ok", "operator": ""}'),
        ("create", b'{"name": "ok", "key": "x"}'),
        ("stop", b'{"name": "nothing"}'),
        ("remove", b'{"name": "shop"}'),
        ("remove", b'{"name": "shop", "world": "blake3:00"}'),
        ("start", b"x" * 20_000),
    ],
)
def test_a_bad_command_changes_nothing(tmp_path: Path, action: str, body: bytes) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.own() as own:
            before = (await own.get("/v1/worlds")).json()
            answer = await own.post(
                f"/v1/worlds/{action}", content=body, headers={"content-type": "application/json"}
            )
            assert 400 <= answer.status_code < 500
            assert answer.json()["detail"]
            assert (await own.get("/v1/worlds")).json() == before

    run(story())


def test_the_only_world_also_answers_without_its_name(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(), made.http() as client, made.own() as own:
            assert (await client.get("/v1/echo")).json()["target"] == "/v1/echo?"
            await own.post("/v1/worlds/create", json={"name": "bank"})
            assert (await client.get("/v1/echo")).status_code == 404

    run(story())


def test_a_token_for_all_worlds_commands_the_node(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")
    reading, operating = (
        create(WorldsFolder(made.path), verb, (Scope(verb),), secret=os.urandom(32), now_ns=1)
        for verb in ("read", "operate")
    )

    async def story() -> None:
        async with made.hosting(), made.http() as client:

            async def status(method: str, path: str, token: str | None, **more: object) -> int:
                headers = {} if token is None else {"authorization": f"Bearer {token}"}
                answer = await client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]
                return answer.status_code

            assert await status("GET", "/v1/worlds", None) == 401
            assert await status("GET", "/v1/worlds", "aos_wrong") == 401
            assert await status("GET", "/v1/worlds", reading) == 200
            assert await status("GET", "/metrics", reading) == 200
            stop = {"json": {"name": "shop"}}
            assert await status("POST", "/v1/worlds/stop", reading, **stop) == 403
            assert await status("POST", "/v1/worlds/stop", operating, **stop) == 200
            page = (await client.get("/")).text
            assert "shop" not in page
            chosen = await client.get("/?world=shop")
            assert (chosen.status_code, chosen.headers["location"]) == (303, "/w/shop/")
            bad = await client.get("/?world=//evil.example")
            assert bad.status_code == 200

    run(story())


def test_the_local_page_lists_the_worlds(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> None:
        async with made.hosting(), made.http() as client:
            page = await client.get("/")
            assert 'href="/w/shop/"' in page.text
            assert "script-src 'self'" in page.headers["content-security-policy"]
            assert (
                (await client.get("/static/page.css"))
                .headers["content-type"]
                .startswith("text/css")
            )
            assert 'aos_worlds{phase="asleep"} 2.0' in (await client.get("/metrics")).text
            foreign = await client.get("/v1/worlds", headers={"host": "evil.example"})
            assert (foreign.status_code, foreign.json()["rule"]) == (403, "host_is_foreign")

    run(story())


def test_a_folder_that_cannot_be_hosted(tmp_path: Path) -> None:
    made = host(tmp_path, "shop")

    async def refused(path: Path, **options: object) -> BaseException:
        other = Host(path)
        try:
            async with other.hosting(**options):
                raise AssertionError("it is hosted")
        except (BadUsage, Refused, Unavailable) as problem:
            return problem

    async def story() -> None:
        async with made.hosting():
            assert "another node hosts" in str(await refused(made.path))
        assert isinstance(await refused(tmp_path / "nothing"), BadUsage)
        assert "found a world" in str(await refused(made.path / "shop"))
        everywhere = ListenAddress(host="0.0.0.0", port=0)
        assert isinstance(await refused(made.path, listen=everywhere), Refused)

    run(story())


def test_the_end_of_the_node_ends_its_worlds(tmp_path: Path) -> None:
    made = host(tmp_path, "shop", "bank")

    async def story() -> list[int]:
        async with made.hosting(), made.http() as client:
            return [
                (await client.get(f"/w/{name}/echo")).json()["pid"] for name in ("shop", "bank")
            ]

    for pid in run(story()):
        assert not is_running(pid)

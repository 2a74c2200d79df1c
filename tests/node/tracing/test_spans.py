"""Spans are made from records, and exported at least once (spec/node-tracing.md)."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from aos.core.journal.record_codec import from_bytes
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.node.tracing.otlp import OtlpExporter
from aos.node.tracing.record_spans import (
    CALLERS_MAX,
    Caller,
    EventCallers,
    RecordSpan,
    RecordSpans,
    read_traceparent,
)
from aos.node.tracing.span_poster import TAKEN, ExportOutcome, SpanPoster, is_configured
from aos.read.views.view import View
from tests.cli.shell import here
from tests.cookbook.worlds import executors
from tests.copies import copied
from tests.node.hostile_receivers import (
    HostileAnswer,
    SendBytes,
    dripping_header,
    endless,
    receiving,
)
from tests.node.nodes import WAIT_S, event
from tests.node.test_node_process import Started, started, wait_until

CALLER: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AGENCIES: Final = executors("saga", "agencies")


@pytest.fixture(scope="module")
def booked(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with one booked trip, one that found no hotel, and one whose hotel retries."""
    path = copied(template, tmp_path_factory.mktemp("booked") / "trips")
    for number, city in enumerate(("Lisbon", "Atlantis", "Rome")):
        value = json.dumps({"trip_id": f"t-{number}", "city": city})
        assert here("send", "trip/Requested@1", value, "--world", path).code == 0
    assert here("run", "--until-idle", "--executors", AGENCIES, "--world", path).code == 0
    return path


def all_spans(path: Path, *, fresh: bool = False) -> list[RecordSpan]:
    """The spans of a world's journal; ``fresh``: each made by an object that knows nothing."""
    found: list[RecordSpan] = []
    with open_reader(path) as reader:
        view = View(reader.state, reader.store)
        spans = RecordSpans(view)
        for frame in reader.store.frames(1, None):
            for data in frame.records:
                if fresh:
                    attempts, spans = spans.attempts, RecordSpans(view)
                    spans.attempts.update(attempts)
                found += spans.of(from_bytes(data))
    return found


def test_the_spans_of_a_trip_are_one_tree(booked: Path) -> None:
    """N-81, N-82"""
    spans = all_spans(booked)

    assert len({each.id for each in spans}) == len(spans)
    events = [each for each in spans if each.parent is None]
    assert [each.name for each in events] == ["event trip/Requested@1"] * 3
    assert len({each.trace for each in spans}) == 3
    known = {(each.trace, each.id): each for each in spans}
    for each in spans:
        assert each.start_ns <= each.end_ns
        if each.parent is not None:
            above = known[each.trace, each.parent]
            assert above.start_ns <= each.start_ns
            names = above.name.split()[0], each.name.split()[0]
            assert names in {("event", "step"), ("step", "effect"), ("effect", "step"),
                             ("step", "step")}  # fmt: skip
    steps = here("inspect", "journal", "--kind", "step", "--json", "--from", "1", "--world", booked)
    found = Counter(each.name.split()[0] for each in spans)
    assert found["step"] == len(steps.lines)
    receipts = here("inspect", "journal", "--kind", "receipt", "--json", "--world", booked).lines
    assert found["effect"] == len(receipts) > 6


def test_spans_say_what_went_wrong_and_no_values(booked: Path) -> None:
    spans = all_spans(booked)

    errors = {(each.name, each.error) for each in spans if each.error is not None}
    assert ("effect trip/book@1", "sold_out") in errors
    texts = json.dumps([[each.name, dict(each.attributes)] for each in spans])
    assert "Atlantis" not in texts
    assert '"aos.key": "t-1"' in texts
    one = next(each for each in spans if each.name == "effect trip/book@1")
    assert one.attributes["aos.executor"] == "node"
    assert [each.name for each in one.events][-1] == "started"


def test_the_same_journal_gives_the_same_spans_from_any_record(booked: Path) -> None:
    """N-81: records that are not in memory any more are looked up."""
    assert all_spans(booked, fresh=True) == all_spans(booked)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (CALLER, ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")),
        (CALLER.replace("00-", "01-", 1), None),
        (CALLER.upper(), None),
        (CALLER + "-x", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_strictly(header: str, found: tuple[str, str] | None) -> None:
    read = read_traceparent(header.encode())

    assert (None if read is None else (read[0].hex(), read[1].hex())) == found
    assert read_traceparent(None) is None


def test_callers_are_kept_in_bounds() -> None:
    callers = EventCallers()
    for seq in range(CALLERS_MAX + 1):
        callers.add(seq, (b"t", b"s"))
    callers.add(5, (b"other", b"s"))

    assert callers.take(0) is None
    assert callers.take(5) == (b"t", b"s"), "the first sender's counts"
    assert callers.take(5) is None


@pytest.mark.parametrize(
    ("environment", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_turns_spans_on(environment: dict[str, str], is_on: bool) -> None:
    """N-80"""
    assert is_configured(environment) is is_on


class Receiver:
    """An exporter that answers as it is told and keeps what it took."""

    def __init__(self, *answers: ExportOutcome) -> None:
        self.answers = list(answers)
        self.taken: list[RecordSpan] = []

    def export(self, spans: Sequence[RecordSpan], _: Mapping[int, Caller]) -> ExportOutcome:
        outcome = self.answers.pop(0) if self.answers else TAKEN
        if outcome is TAKEN:
            self.taken += spans
        return outcome

    def close(self) -> None:
        pass


async def exported(
    path: Path, receiver: Receiver, until: Callable[[SpanPoster], bool]
) -> list[str]:
    """Export the spans of a world until something is so; return the lines that were reported."""
    lines: list[str] = []
    follower = Follower(path)
    await follower.start()
    poster = SpanPoster(open_folder(path), follower, receiver, lines.append)
    running = asyncio.ensure_future(poster.run())
    async with asyncio.timeout(WAIT_S):
        while not until(poster) and not running.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    if running.done():
        running.result()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    follower.close()
    return lines


def set_position(path: Path, document: object) -> Path:
    file = path / "node" / "tracing" / "otlp.json"
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.parent.parent.chmod(0o700)
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


def test_a_refused_batch_is_left_out_and_another_is_repeated(
    booked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-86"""
    monkeypatch.setattr("aos.node.tracing.span_poster.DELAY_S", 0)
    monkeypatch.setattr("aos.node.tracing.span_poster.PAUSE_S", 0.01)
    monkeypatch.setattr("aos.node.tracing.span_poster.BATCH", 1)
    monkeypatch.setattr("aos.node.tracing.span_poster.WINDOW", 1)
    path = copied(booked, tmp_path / "trips")
    set_position(path, {"version": 1, "seq": 1, "attempts": {}})
    receiver = Receiver(
        ExportOutcome("answered 503"), TAKEN, ExportOutcome("answered 400", is_refused=True)
    )
    expected = all_spans(path)

    lines = asyncio.run(
        exported(path, receiver, lambda poster: poster.exported == len(expected) - 1)
    )

    assert receiver.taken == [expected[0], *expected[2:]]
    assert lines == [
        "spans: 1 were not taken: answered 503; they are exported again",
        "spans: they are exported again",
        "spans: 1 were not taken: answered 400; they are left out",
        "spans: they are exported again",
    ]


def test_a_line_about_a_receiver_has_no_token_of_its_url_or_headers(
    booked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-86a: errors of HTTP packages quote URLs."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:pass%20word@h/t0ken/v1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=sp4n%20key,other=0ther")
    monkeypatch.setattr("aos.node.tracing.span_poster.DELAY_S", 0)
    path = copied(booked, tmp_path / "trips")
    set_position(path, {"version": 1, "seq": 1, "attempts": {}})

    class Failing(Receiver):
        def export(self, *_: object) -> ExportOutcome:
            raise ValueError("h/t0ken/v1 dXNlcjpwYXNzIHdvcmQ= sp4n key 0ther")

    [line, *_] = asyncio.run(exported(path, Failing(), lambda poster: poster.failed == 1))

    url, headers = "[secret OTEL_EXPORTER_OTLP_ENDPOINT]", "[secret OTEL_EXPORTER_OTLP_HEADERS]"
    assert f"ValueError: h/{url}/v1 {url} {headers} {headers}; they are" in line


def test_a_restart_continues_behind_the_last_batch_with_the_attempts(
    booked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-87"""
    monkeypatch.setattr("aos.node.tracing.span_poster.DELAY_S", 0)
    monkeypatch.setattr("aos.node.tracing.span_poster.BATCH", 1)
    monkeypatch.setattr("aos.node.tracing.span_poster.WINDOW", 1)
    path = copied(booked, tmp_path / "trips")
    file = set_position(path, {"version": 1, "seq": 1, "attempts": {}})
    expected, found = all_spans(path), list[RecordSpan]()
    while len(found) < len(expected):
        receiver = Receiver()

        def is_enough(_: SpanPoster, here: Receiver = receiver) -> bool:
            return len(here.taken) >= 7 or here.taken[-1:] == expected[-1:]

        asyncio.run(exported(path, receiver, is_enough))
        found += [each for each in receiver.taken if each not in found]

    assert found == expected
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["seq"] > 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "seq": 1, "attempts": 3}'],
)
def test_a_position_that_is_not_ours_is_refused(booked: Path, tmp_path: Path, text: str) -> None:
    path = copied(booked, tmp_path / "trips")
    set_position(path, text)

    with pytest.raises(Exception, match=r"otlp\.json: the position of the spans cannot be read"):
        asyncio.run(exported(path, Receiver(), lambda _: False))


def test_a_position_after_the_end_of_an_older_copy_continues_with_the_next_record(
    booked: Path, tmp_path: Path
) -> None:
    path = copied(booked, tmp_path / "trips")
    set_position(path, {"version": 1, "seq": 10**6, "attempts": {}})

    lines = asyncio.run(exported(path, Receiver(), lambda poster: poster.position > 0))

    assert "they were exported up to record 999999, and the journal ends" in lines[0]


# A hostile receiver


def dripping_body(send: SendBytes) -> None:
    send(b"HTTP/1.1 400 No\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        send(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("answer", "exchange_s", "outcome"),
    [
        (endless, 60, TAKEN),
        (dripping_body, 60, ExportOutcome("answered 400", is_refused=True)),
        (dripping_header, 1, ExportOutcome("no answer")),
    ],
)
def test_a_receiver_holds_no_export_and_fills_no_memory(
    booked: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: HostileAnswer,
    exchange_s: int,
    outcome: ExportOutcome,
) -> None:
    """N-86b."""

    spans = all_spans(booked)[:1]
    with receiving(answer) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(exchange_s))
        exporter = OtlpExporter()
        tracemalloc.start()
        assert exporter.export(spans, {}) == outcome
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        exporter.close()
    assert peak < 8 * 1024 * 1024


# A whole node


@contextmanager
def collector(answer: Callable[[int], int]) -> Iterator[tuple[str, list[Any]]]:
    """A receiver of OTLP: its URL, and the spans that it took."""
    taken: list[Any] = []
    requests: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            requests.append(len(body))
            status = answer(len(requests))
            if status == 200 and self.path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    names = {each.key: each.value.string_value for each in
                             resource.resource.attributes}  # fmt: skip
                    for scope in resource.scope_spans:
                        taken.extend((names["service.name"], each) for each in scope.spans)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        server.server_close()


def metrics_of(node: Started) -> str:
    return httpx.get(f"{node.url}/metrics", timeout=WAIT_S).text


def test_a_node_exports_its_spans_though_the_front_is_killed(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = copied(template, tmp_path / "trips"), tmp_path / "log"
    with collector(lambda number: 503 if number == 1 else 200) as (url, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        with started(path, log, "--executors", AGENCIES) as node:
            first = httpx.post(
                f"{node.url}/v1/events", json=event("s-1"), params={"wait": "settled"},
                headers={"traceparent": CALLER}, timeout=WAIT_S,
            )  # fmt: skip
            assert first.status_code == 200
            wait_until(lambda: len(taken) > 3)
            [front] = node.fronts()
            os.kill(front, signal.SIGKILL)
            wait_until(lambda: node.fronts() not in ([], [front]))
            sent = httpx.post(
                f"{node.url}/v1/events", json=event("s-2"), params={"wait": "settled"},
                timeout=WAIT_S,
            )  # fmt: skip
            assert sent.status_code == 200
            seqs = {first.json()["seq"], sent.json()["seq"]}
            wait_until(lambda: len({each.trace_id for _, each in taken}) == 2)
            wait_until(lambda: "aos_span_lag_records 0.0" in metrics_of(node))
            metrics = metrics_of(node)
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(WAIT_S) == 0
    expected = {each.id: each for each in all_spans(path)}
    found = {each.span_id: each for _, each in taken}
    assert set(found) == set(expected), log.read_text()
    for id, span in found.items():
        ours = expected[id]
        assert (span.trace_id, span.parent_span_id) == (ours.trace, ours.parent or b"")
        assert (span.name, span.start_time_unix_nano) == (ours.name, ours.start_ns)
        assert span.end_time_unix_nano == ours.end_ns
        assert len(span.events) == len(ours.events)
        assert span.status.message == (ours.error or "")
    events = [each for each in found.values() if each.name.startswith("event ")]
    assert {value.value.int_value for each in events for value in each.attributes
            if value.key == "aos.seq"} == seqs  # fmt: skip
    # The last batch before the kill may have been exported again, then without the link.
    links = {(each.trace_id.hex(), each.span_id.hex()) for _, span in taken for each in span.links}
    assert links == {tuple(CALLER.split("-")[1:3])}
    assert {service for service, _ in taken} == {"aos"}
    assert 'aos_spans_total{outcome="exported"}' in metrics


def test_a_worker_gets_the_trace_context_of_its_effect(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-85"""
    path = copied(template, tmp_path / "trips")
    (tmp_path / "seen.py").write_text(
        "from pathlib import Path\n"
        "from aos.worker import effect\n\n"
        '@effect("trip/book@1")\n'
        "def book(params, ctx):\n"
        '    Path(__file__).with_name("seen").write_text(str(ctx.traceparent))\n'
        '    return {"reference": "r-1"}\n'
    )
    with collector(lambda _: 200) as (url, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with started(path, tmp_path / "log", "--worker", tmp_path / "seen.py:book") as node:
            sent = httpx.post(f"{node.url}/v1/events", json=event("w-1"), timeout=WAIT_S)
            assert sent.status_code == 200
            seen = tmp_path / "seen"
            wait_until(lambda: seen.exists() and bool(seen.read_text()))
            header = seen.read_text()
            wait_until(
                lambda: header in {f"00-{each.trace_id.hex()}-{each.span_id.hex()}-01"
                                   for _, each in taken if each.name == "effect trip/book@1"}
            )  # fmt: skip


def test_a_receiver_that_does_not_answer_delays_nothing(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = copied(template, tmp_path / "trips"), tmp_path / "log"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with started(path, log, "--executors", AGENCIES) as node:
        sent = httpx.post(
            f"{node.url}/v1/events", json=event("n-1"), params={"wait": "settled"}, timeout=WAIT_S
        )
        assert sent.json()["to"][0]["status"] == "completed"
        wait_until(lambda: "they are exported again" in log.read_text())
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(WAIT_S) == 0
    assert "spans: " in log.read_text()
    assert "Traceback" not in log.read_text()

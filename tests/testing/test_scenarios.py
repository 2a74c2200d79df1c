"""Scenario files: parsing, playing, and the messages of failures (T-60 to T-66)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos.testing.play import Played, play
from aos.testing.scenario import parse
from aos.testing.words import EXPECTED, WORDS
from tests.testing.stage import ORDERS, WASM, nodes

HEAD = f"""manifest = {str(ORDERS)!r}
now = 2026-01-01T00:00:00Z

[[step]]
on = "stock.reserve"
answers = [ {{ value = {{ reservation = "r" }} }} ]

[[step]]
send = "shop/OrderPlaced@1"
value = {{ order_id = "o1", customer_id = "c1", patience = "30d", items = [
  {{ sku = "tea", quantity = 2, price_cents = 450 }} ] }}
"""


def played(text: str, folder: Path = Path("/tmp/nowhere")) -> Played:
    return play(parse(text.encode(), folder / "x.scenario.toml"))


def fails(text: str) -> str:
    """Play a scenario that fails, and return its message with the line."""
    found = played(text)
    assert found.failure is not None
    name = "" if found.failure.step is None else f"{found.failure.step.name}: "
    return f"{found.location}: {name}{found.failure.message}".removeprefix("/tmp/nowhere/")


def test_a_whole_story_is_played() -> None:
    found = played(
        HEAD
        + """
[[step]]
expect = "effects"
are = [ { effect = "card.charge", key = "o1", params = { amount_cents = 900 } } ]

[[step]]
expect = "timers"
count = 1
are = [ { params = { key = "deadline" }, workflow = "deadline" } ]

[[step]]
answer = "card.charge"
params = { amount_cents = 900 }
value = { charge = "ch", amount_cents = 900 }
cost_cents = 3
after = "2s"

[[step]]
expect = "cell"
workflow = "order"
key = "o1"
status = "waiting"
state = { phase = "Charging", charge = { Asked = 1 } }

[[step]]
advance = "2s"

[[step]]
duplicate = "card.charge"

[[step]]
answer = "parcel.ship"
issuer_ref = "ship/1"
value = { parcel = "p1" }

[[step]]
expect = "cell"
workflow = "shop/order@1"
key = "o1"
status = "completed"
annotation = "ship done; closed: Shipped"
state = { outcome = "Shipped", deadline = 1769817600000000000 }

[[step]]
expect = "events"
schema = "shop/OrderShipped@1"
are = [ { schema = "shop/OrderShipped@1", key = "o1", value = { value_cents = 900 } } ]

[[step]]
expect = "cells"
workflow = "ledger"
are = [ { key = "c1", state = { orders = { o1 = { shipped_cents = 900 } } } } ]

[[step]]
expect = "cell"
workflow = "deadline"
key = "o1"
is_gone = true

[[step]]
expect = "faults"
are = []

[[step]]
finish = "1d"
"""
    )
    assert found.failure is None, found.failure
    assert found.records > 10


def puppet(folder: Path) -> Path:
    """Write a manifest of the puppet to disk, and a second version next to it."""
    import json

    for name, version in (("air", 1), ("next/air", 2)):
        given = nodes(version=version)
        (folder / name).mkdir(parents=True)
        (folder / name / "p.wasm").write_bytes(WASM)
        for each in given:
            if each["$kind"] == "defmodule":
                each["runtime"]["artifact"]["path"] = "p.wasm"  # type: ignore[index]  # as above
        (folder / name / "m.air.json").write_text(json.dumps(given))
    return folder


def test_every_other_word_does_what_it_says(tmp_path: Path) -> None:
    asks_charge = base64_out("count")
    found = played(
        f"""
executors = []
seed = "x"

[[step]]
send = "t/Do@1"
id = "one"
value = {{ key = "a", out = "{asks_charge}" }}

[[step]]
send = "t/Do@1"
id = "one"
value = {{ key = "b" }}
refused = "submission_id_is_taken"

[[step]]
begin = "charge"

[[step]]
frame = "charge"
kind = "half"
payload = {{ done = 50 }}

[[step]]
forge = "charge"
value = {{ ref = "mine" }}
refused = "receipt_signature_is_wrong"

[[step]]
restart = true

[[step]]
fail = "charge"
code = "declined"
hold = true

[[step]]
expect = "cell"
workflow = "cell"
key = "a"
state = 2

[[step]]
run = true

[[step]]
expect = "cell"
workflow = "cell"
key = "a"
state = 3

[[step]]
send = "t/Do@1"
value = {{ key = "b", out = "{asks_charge}" }}

[[step]]
timeout = "charge"

[[step]]
send = "t/Do@1"
value = {{ key = "c", out = "{asks_charge}" }}

[[step]]
cancel = "charge"
key = "c"

[[step]]
send = "t/Do@1"
value = {{ key = "d", out = "{asks_charge}" }}

[[step]]
misfit = "charge"

[[step]]
expect = "cells"
are = [ {{ key = "a", state = 3 }}, {{ key = "b", state = 2 }}, {{ state = 2 }}, {{ state = 2 }} ]

[[step]]
send = "t/Do@1"
value = {{ key = "e", fault = "no good" }}
may_fail = true

[[step]]
retry = "cell"
key = "e"
may_fail = true

[[step]]
expect = "faults"
count = 2
are = [ {{ key = "e", kind = "guest", message = "no good" }}, {{ message = "puppet" }} ]

[[step]]
skip = "cell"
key = "e"

[[step]]
apply = "next"
mode = "pin"

[[step]]
advance_to = 2027-01-01T00:00:00Z
""",
        puppet(tmp_path),
    )
    assert found.failure is None, found.failure


def base64_out(ref: str) -> str:
    from aos.values.spelling import base64_text
    from tests.testing.stage import CHARGE, charge, out

    return base64_text(out(effects=((CHARGE, charge(), ref),)))


def test_scripts_end_in_every_way(tmp_path: Path) -> None:
    sends = "".join(
        f'[[step]]\nsend = "t/Do@1"\nvalue = {{ key = "{key}", out = "{base64_out("count")}" }}\n'
        for key in "abcdef"
    )
    found = played(
        f"""
[[step]]
on = "charge"
answers = [ {{ value = {{ ref = "r" }} }}, {{ fail = "x", message = "m", retryable = true }},
  {{ timeout = true }}, {{ value = {{ ref = "r" }}, after = "1s" }}, {{ never = true }} ]

{sends}

[[step]]
finish = "1h"

[[step]]
expect = "effects"
are = [ {{ key = "e" }}, {{ key = "f" }} ]
""",
        puppet(tmp_path),
    )
    assert found.failure is None, found.failure


CELL_IS = 'expect = "cell"\nworkflow = "order"\nkey = "o1"\n'
FAILURES = [
    (
        CELL_IS + 'state = { phase = "Paid" }',
        '(expect cell): $.state.phase: expected "Paid", found "Charging"',
    ),
    (
        CELL_IS.replace("o1", "o2") + 'status = "failed"',
        "(expect cell): $: expected shop/order@1 o2, found no such cell",
    ),
    (
        CELL_IS + "is_gone = true",
        "(expect cell): $: expected no such cell, found one that is waiting",
    ),
    (
        CELL_IS + 'exactly = true\nstate = { phase = "Charging" }',
        "(expect cell): $.state.amount_cents: expected no such key, found 900",
    ),
    (
        'expect = "events"\nare = []',
        '(expect events): $: expected 0 items, found 1: [{"schema"',
    ),
    (
        'expect = "events"\nexactly = true\nare = [ { value = { order_id = "o1" } } ]',
        '(expect events): $[0].value.customer_id: expected no such key, found "c1"',
    ),
    (
        'expect = "faults"\ncount = 1',
        "(expect faults): count: expected 1, found 0: []",
    ),
    (
        'expect = "effects"\nare = [ { params = { amount_cents = true } } ]',
        "(expect effects): $[0].params.amount_cents: expected true, found 900",
    ),
    (
        'answer = "card.charge"\nvalue = { charge = 5, amount_cents = 1 }',
        (
            "(answer): the answer to shop/card.charge@1: this is not a valid "
            "shop/CardChargeReceipt@1: $.charge"
        ),
    ),
    (
        'answer = "parcel.ship"',
        "(answer): no open effect matches parcel.ship; open effects:",
    ),
    (
        'duplicate = "card.charge"',
        "(duplicate): no settled effect matches card.charge",
    ),
    (
        'forge = "card.charge"\nvalue = { charge = "c", amount_cents = 1 }',
        "(forge): receipt_signature_is_wrong",
    ),
    (
        'cancel = "card.charge"\nrefused = "intent_is_not_open"',
        "(cancel): refused: expected intent_is_not_open, found it was accepted",
    ),
    (
        'retry = "order"\nkey = "o1"\nrefused = "busy"',
        "(retry): refused: expected busy, found cell_has_not_failed",
    ),
    (
        'send = "shop/Other@1"',
        "(send): the manifest has no schema shop/Other@1",
    ),
]


@pytest.mark.parametrize(("step", "said"), FAILURES, ids=range(len(FAILURES)))
def test_the_first_step_that_is_not_so_is_told_with_its_line(step: str, said: str) -> None:
    told = fails(f"{HEAD}\n[[step]]\n{step}\n")
    assert told.startswith(f"x.scenario.toml:13: step 3 {said}"), told


def test_a_failure_has_all_places_both_sides_and_the_trace() -> None:
    found = played(
        HEAD + '\n[[step]]\nexpect = "cell"\nworkflow = "order"\nkey = "o1"\n'
        'status = "completed"\nstate = { phase = "Paid", amount_cents = 1 }\n'
    )
    assert found.failure is not None
    document = found.failure.to_document()
    assert [mismatch.path for mismatch in found.failure.mismatches] == [
        "$.status", "$.state.phase", "$.state.amount_cents",
    ]  # fmt: skip
    assert (document["step"], document["line"], document["word"]) == (3, 13, "expect")
    assert document["expected"] == {
        "status": "completed",
        "state": {"phase": "Paid", "amount_cents": 1},
    }
    assert "step     shop/order@1 o1" in found.failure.trace


def test_a_fault_that_is_not_expected_ends_it(tmp_path: Path) -> None:
    found = played(
        '[[step]]\nsend = "t/Do@1"\nvalue = { key = "a", trap = true }\n', puppet(tmp_path)
    )
    assert found.failure is not None
    assert "t/cell@1 a failed: trap" in found.failure.message


def test_a_manifest_that_is_not_right_is_told_without_a_step(tmp_path: Path) -> None:
    assert fails("[[step]]\nrun = true\n").startswith(
        "x.scenario.toml: /tmp/nowhere: there is no such file or folder"
    )
    (tmp_path / "air").mkdir()
    found = played("[[step]]\nrun = true\n", tmp_path)
    assert found.failure is not None
    assert found.failure.step is None


def test_the_project_of_the_file_is_its_manifest(tmp_path: Path) -> None:
    puppet(tmp_path)
    (tmp_path / "aos.toml").write_text("")
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    text = '[[step]]\nsend = "t/Do@1"\nvalue = { key = "a" }\n'
    for head in ("", 'manifest = "next"\n'):
        assert played(head + text, tmp_path / "tests" / "deep").failure is None


def test_executors_are_found_next_to_the_file_or_in_the_project(tmp_path: Path) -> None:
    puppet(tmp_path)
    (tmp_path / "aos.toml").write_text("")
    (tmp_path / "scenario_effects.py").write_text(
        "from aos.worker import effect\n"
        "@effect('t/charge@1')\n"
        "def run(params, ctx):\n    return {'ref': params['id']}\n"
    )
    (tmp_path / "tests").mkdir()
    found = played(
        'executors = ["scenario_effects.py:run"]\n'
        f'[[step]]\nsend = "t/Do@1"\nvalue = {{ key = "a", out = "{base64_out("count")}" }}\n'
        '[[step]]\nexpect = "cell"\nworkflow = "cell"\nkey = "a"\nstate = 2\n',
        tmp_path / "tests",
    )
    assert found.failure is None, found.failure


def test_a_response_is_the_receipt_of_an_http_request(tmp_path: Path) -> None:
    """T-62a: in a step ``answer``, and as one of the ``answers`` of ``on``."""
    from aos.values.spelling import base64_text
    from tests.testing.stage import out

    params: dict[str, object] = {
        "method": "GET",
        "url": "u",
        "headers": {},
        "body_ref": None,
        "body": None,
    }
    asks = base64_text(out(effects=(("sys/http.request@1", params, "count"),)))
    sends = "".join(
        f'[[step]]\nsend = "t/Do@1"\nvalue = {{ key = "{key}", out = "{asks}" }}\n' for key in "ab"
    )
    found = played(
        f"""{sends}
[[step]]
answer = "http.request"
key = "a"
response = {{ status = 201, json = {{ id = "x" }}, headers = {{ "x-a" = "1" }} }}

[[step]]
on = "http.request"
answers = [{{ response = {{ body = "plain" }} }}]

[[step]]
expect = "cells"
are = [{{ key = "a", state = 2 }}, {{ key = "b", state = 2 }}]
""",
        puppet(tmp_path),
    )
    assert found.failure is None, found.failure


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f: it has no step (write one: [[step]])"),
        ("x = 1\n[[step]]\nrun = true", "f: the file: unknown field x: expected one of about,"),
        ("abuot = ''\n[[step]]\nrun = true", "(did you mean about?)"),
        ("replay = 1\n[[step]]\nrun = true", "f: the file: replay: invalid value: expected "),
        ("step = 5", "f: the file: step: invalid value: expected a list of tables, found 5"),
        ("[[step]]", "f:1: step 1: a step has exactly one action: expected one of send,"),
        ("\n[[step]]\nsnd = 'x'", "f:2: step 1: a step has exactly one action: expected one of"),
        (
            "[[step]]\nrun = true\nsend = 'x'",
            "a step has exactly one action: expected one of send, run",
        ),
        ("[[step]]\nrun = 1", "f:1: step 1 (run): run: invalid value: expected true, found 1"),
        ("[[step]]\nsend = 'x'\nvaleu = 1", "unknown field valeu: expected one of value, id, hold"),
        ("[[step]]\nsend = 'x'\nid = 1", "(send): id: invalid value: expected text, found 1"),
        ("[[step]]\nsend = 'x'\nvalue = { a = [1.5] }", "value: no floats: expected an integer"),
        ("[[step]]\nsend = 'x'\nvalue = 2026-01-01", "expected a time with its date, found 2026"),
        ("[[step]]\nsend = 'x'\nvalue = 10:00:00", "expected a time with its date, found 10:00"),
        ("[[step]]\nsend = 'x'\nvalue = 2026-01-01T00:00:00", "a time needs Z or an offset"),
        ("[[step]]\nfail = 'x'", "f:1: step 1 (fail): code is missing"),
        ("[[step]]\nframe = 'x'", "step 1 (frame): kind is missing"),
        ("[[step]]\non = 'x'\nanswers = []", "answers is empty: expected at least one answer"),
        (
            "[[step]]\non = 'x'\nanswers = [ {} ]",
            "answers[0]: an answer has one outcome: expected one of",
        ),
        (
            "[[step]]\non = 'x'\nanswers = [ { fail = 'x', never = true } ]",
            (
                "an answer has one outcome: expected one of value, response, fail, timeout, never, "
                "found fail, never"
            ),
        ),
        ("[[step]]\nanswer = 'x'\nresponse = { stauts = 1 }", "response: unknown field stauts"),
        (
            "[[step]]\nanswer = 'x'\nvalue = 1\nresponse = {}",
            "f:1: step 1 (answer): an answer has value or response, not both",
        ),
        (
            "[[step]]\non = 'x'\nanswers = [ { response = { json = {}, body = '' } } ]",
            "answers[0]: response: a response has json or body, not both",
        ),
        ("[[step]]\nexpect = 'cel'", "f:1: step 1 (expect): unknown expectation 'cel': expected"),
        ("[[step]]\nexpect = 'cell'", "step 1 (expect cell): workflow is missing"),
        ("[[step]]\nexpect = 'cell'\nworkflow = 'x'", "the step checks nothing: expected status,"),
        ("[[step]]\nexpect = 'events'", "the step checks nothing: expected are or count"),
        ("[[step]]\nexpect = 'timers'\nare = [ { effect = 'x' } ]", "are[0]: unknown field effect"),
        ("[[step]]\nexpect = 'cells'\nare = 'x'", "expected a list of tables, found 'x'"),
        ("step =", "f: the file is not TOML: Invalid value (at "),
    ],
)
def test_an_invalid_line_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse(text.encode(), Path("f"))
    assert said in str(refused.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BadUsage) as refused:
        parse(b"x = 1\n[[step]]\nrun = 2\n[[step]]\nsendd = 'x'", Path("f"))
    assert len(str(refused.value).splitlines()) == 3


def test_a_header_inside_of_a_text_takes_the_lines_away() -> None:
    text = 'about = """\n[[step]]\n"""\n[[step]]\nsend = "x"\n'
    (step,) = parse(text.encode(), Path("f")).steps
    assert step.line is None
    inline = parse(b"step = [ { run = true } ]", Path("f"))
    assert inline.steps[0].line is None


def test_every_word_is_in_the_specification() -> None:
    from tests.testing.stage import ROOT

    page = (ROOT / "spec" / "testing.md").read_text("utf-8")
    for word in (*WORDS, *EXPECTED):
        assert f"`{word}`" in page

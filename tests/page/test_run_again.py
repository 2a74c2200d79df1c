"""An effect that is parked, from the page to its receipt (spec/page.md, PG-64)."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.copies import copied
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.test_node_process import started, wait_until
from tests.page.browser import read_page
from tests.page.form_browser import FormBrowser, buttons, hidden, made

__all__ = ["template", "world"]

FUNCTIONS = """
import pathlib
from aos.worker import Executors, effect


@effect("host/echo@1", attempts=2, backoff_ms=1)
def echo(params, ctx):
    if not pathlib.Path(OPEN).exists():
        raise RuntimeError("the <b>bank</b> is closed")
    return {"word": params["word"].upper()}


echoes = Executors("test", [echo])
"""


@pytest.mark.parametrize("option", ["--executors", "--worker"])
def test_a_parked_effect_is_run_again_from_the_page_to_its_receipt(
    template: Path, tmp_path: Path, option: str
) -> None:
    """PG-62, PG-64, PG-72"""
    path = copied(template, tmp_path / "world")
    bank, functions = tmp_path / "open", tmp_path / "functions.py"
    functions.write_text(FUNCTIONS.replace("OPEN", repr(str(bank))))
    secret = made(path, "ann", "read", "operate", "send")
    with started(path, tmp_path / "log", option, f"{functions}:echoes") as node:
        browser = FormBrowser(node.url).open(secret)
        base = browser.base

        def parked() -> list[Any]:
            rows: list[Any] = browser.get(f"{base}/intents.json?parked=1").json()["intents"]
            return rows

        out = b64encode(puppet.asks("hello")).decode()
        form = browser.form(f"{base}/send?schema={puppet.DO}")
        value = json.dumps({"key": "o-1", "out": out})
        assert browser.post(f"{base}/send", form | {"value": value}).status_code == 303
        wait_until(parked)
        [row] = parked()
        assert row["halt"]["phase"] == "parked"

        address = f"{base}/intent/{row['intent'].partition(':')[2]}"
        assert address in read_page(browser.get(f"{base}/intents")).links
        page = browser.get(address)
        assert "the <b>bank</b> is closed" in read_page(page).text
        assert "<b>bank" not in page.text
        again = buttons(page)["Run it again…"]
        assert again == f"{address}/retry"
        shown = browser.get(again)
        assert "the <b>bank</b> is closed" in read_page(shown).text
        first, other = hidden(shown), browser.form(again)

        done = browser.post(again, first)
        assert (done.status_code, done.headers["location"]) == (303, address)
        wait_until(lambda: [each["halt"]["record"] for each in parked()] > [row["halt"]["record"]])
        assert browser.post(again, first).headers["location"] == address, "it was done"
        stale = browser.post(again, other)
        assert (stale.status_code, "form_is_stale" in stale.text) == (409, True)
        assert address in read_page(stale).links
        [later] = parked()
        assert later["halt"]["attempt"] == row["halt"]["attempt"] + 2, "one press, two attempts"

        bank.touch()
        assert browser.press(again).headers["location"] == address
        wait_until(lambda: browser.get(f"{address}.json").json()["receipt"])
        found = browser.get(f"{address}.json").json()
        assert (found["receipt_status"], found["signature"]["is_valid"]) == ("ok", True)
        assert found["receipt"]["attempt"] == later["halt"]["attempt"] + 1
        page = browser.get(address)
        assert "Valid." in read_page(page).text
        assert "HELLO" in browser.get(f"{base}/record/{found['settled_record']}").text
        assert buttons(page) == {}
        assert browser.get(again).status_code == 409
        browser.close()

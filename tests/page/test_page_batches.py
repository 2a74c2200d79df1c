"""Retry and skip for all failed cells of a list: each form begins one batch
(spec/page.md, PG-67 to PG-69)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from aos.page.page_buttons import PageButtons, condition_of_group, condition_of_list, joined
from aos.page.page_links import PageLinks
from aos.page.page_text import visible
from aos.read.where.condition import Term, parse
from tests.cli.shell import here
from tests.page.browser import read_page
from tests.page.conftest import HOSTILE
from tests.page.form_browser import FormBrowser, buttons, hidden
from tests.page.operated import FAILED, OTHER, SLOW, TRAPPED
from tests.page.test_page_buttons import controls

WAIT_S = 60.0
RETRY, SKIP = "Retry all…", "Skip the entries of all…"


@pytest.fixture(autouse=True)
def no_batch_is_left(operator: FormBrowser) -> Iterator[None]:
    yield
    for each in batches(operator):
        if each["status"] == "running":
            operator.press(f"{operator.base}/batch/{each['id']}/stop")


def batches(browser: FormBrowser) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get(f"{browser.base}/batches.json").json()["batches"]
    return found


def ended(browser: FormBrowser, address: str) -> dict[str, Any]:
    """The document of a batch once it has ended."""
    until_s = time.monotonic() + WAIT_S
    while True:
        found: dict[str, Any] = browser.get(f"{address}.json").json()
        if found["status"] != "running":
            return found
        assert time.monotonic() < until_s, found
        time.sleep(0.05)


def counts(path: Path, *keys: str) -> list[int]:
    return [len(controls(path, key)) for key in keys]


def button(browser: FormBrowser, address: str, text: str) -> str:
    """The address of a form that a page has a button for."""
    return buttons(browser.get(browser.base + address))[text]


def group(browser: FormBrowser, text: str, message: str) -> str:
    """The address of a form for the faults of one message."""
    page = browser.get(f"{browser.base}/faults").text
    [section] = [each for each in page.split("<section") if message in each.partition("</h2>")[0]]
    answer = httpx.Response(200, text=section)
    return buttons(answer)[text]


def test_a_list_of_failed_cells_has_a_button_for_all_of_them(
    operated: Path, operator: FormBrowser, secrets: dict[str, str]
) -> None:
    """PG-67, PG-69: the form shows the same cells as the command, and begins one batch."""
    address = button(operator, "/cells?status=failed&key_prefix=f-&fault=output_malformed", RETRY)
    before = counts(operated, *FAILED, *OTHER, *TRAPPED)
    plan = operator.get(f"{address}").text
    document = operator.get(address.replace("/retry?", "/retry.json?")).json()

    words = read_page(operator.get(address)).command
    assert words is not None
    dry = here(*words[1:], "--dry-run", "--json", env={"AOS_TOKEN": secrets["operator"]})
    assert dry.json == {"total": document["total"], "first": document["first"]}
    assert sorted(each["key"] for each in document["first"]) == list(FAILED)
    assert words[:3] == ["aos", "batch", "retry"]
    assert "A batch retries 6 cells" in plan
    assert counts(operated, *FAILED, *OTHER, *TRAPPED) == before, "GET changes nothing"

    form, known = operator.form(address), len(batches(operator))
    path = urlsplit(address).path
    first, again = operator.post(path, form), operator.post(path, form)

    assert (first.status_code, again.status_code) == (303, 303), first.text
    assert first.headers["location"] == again.headers["location"]
    done = ended(operator, first.headers["location"])
    assert len(batches(operator)) == known + 1
    assert (done["status"], done["done"], done["refused"]) == ("done", 6, 0)
    assert done["token"] == "operator"
    after = counts(operated, *FAILED, *OTHER, *TRAPPED)
    assert [b - a for a, b in zip(before, after, strict=True)] == [1] * 6 + [0] * 4
    shown = " ".join(read_page(operator.get(first.headers["location"])).text.split())
    for each in ("done retry", "Items6", "Left0", "100 %", "on average"):
        assert each in shown
    assert done["id"] in operator.get(f"{operator.base}/batches").text


def test_the_same_form_at_the_same_time_begins_one_batch(
    operated: Path, operator: FormBrowser
) -> None:
    """PG-62, PG-69"""
    address = button(operator, "/cells?status=failed&where=key+%3D+f-0", RETRY)
    form, path = operator.form(address), urlsplit(address).path
    before, known = counts(operated, "f-0"), len(batches(operator))
    found: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda: found.append(operator.post(path, form))) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert [each.status_code for each in found] == [303] * 4
    [location] = {each.headers["location"] for each in found}
    assert ended(operator, location)["done"] == 1
    assert len(batches(operator)) == known + 1
    assert counts(operated, "f-0") == [before[0] + 1]


def test_a_group_of_faults_is_retried_without_the_others(
    operated: Path, operator: FormBrowser
) -> None:
    """PG-67: all cells of the group, and no other one of the same kind."""
    address = group(operator, RETRY, "expected a map, found integer")
    before = counts(operated, *OTHER), counts(operated, *FAILED)

    done = operator.post(urlsplit(address).path, operator.form(address))

    assert ended(operator, done.headers["location"])["done"] == len(OTHER)
    assert counts(operated, *OTHER) == [each + 1 for each in before[0]]
    assert counts(operated, *FAILED) == before[1]


def test_cells_that_have_failed_again_are_not_in_a_form_that_has_not_seen_it(
    operated: Path, operator: FormBrowser
) -> None:
    """PG-62, PG-69: two persons look at the same cells, and both press the button."""
    address = button(operator, "/cells?status=failed&key_prefix=g-", RETRY)
    path = urlsplit(address).path
    one, two = operator.form(address), operator.form(address)
    first = operator.post(path, one)
    ended(operator, first.headers["location"])
    before, known = counts(operated, *OTHER), len(batches(operator))

    late = operator.post(path, two)

    assert (late.status_code, "form_is_stale" in late.text) == (409, True)
    assert "no failed cell passes this condition" in read_page(late).text
    assert counts(operated, *OTHER) == before
    assert len(batches(operator)) == known


def test_a_batch_with_a_rate_is_stopped_by_a_form(operated: Path, operator: FormBrowser) -> None:
    """PG-68, PG-69"""
    address = button(operator, "/cells?status=failed&key_prefix=f-", RETRY)
    path, form = urlsplit(address).path, operator.form(address)
    before, known = sum(counts(operated, *FAILED)), len(batches(operator))

    misfit = operator.post(path, form | {"rate": "<fast>"})
    assert misfit.status_code == 422
    assert "the rate: expected text such as" in read_page(misfit).text
    assert 'value="&lt;fast&gt;"' in misfit.text
    assert len(batches(operator)) == known

    begun = operator.post(path, operator.form(address) | {"rate": " 1/h "})
    batch = begun.headers["location"]
    running = operator.get(batch)
    assert "at most 1/h" in running.text
    stop = buttons(running)["Stop…"]
    assert operator.get(f"{stop}.json").json()["action"] == "stop"
    fields, others = operator.form(stop), operator.form(stop)
    first, again = operator.post(stop, fields), operator.post(stop, fields)
    late = operator.post(stop, others)

    assert (first.status_code, first.headers["location"]) == (303, batch)
    assert again.headers["location"] == batch
    assert (late.status_code, "it is stopped" in late.text) == (409, True)
    found = operator.get(f"{batch}.json").json()
    assert (found["status"], found["rate"], found["total"]) == ("stopped", "1/h", 6)
    assert found["done"] == sum(counts(operated, *FAILED)) - before < 6
    assert "Stop…" not in buttons(operator.get(batch))
    assert operator.get(stop).status_code == 409


def test_the_entries_of_all_cells_are_skipped(operated: Path, operator: FormBrowser) -> None:
    """PG-67"""
    address = group(operator, SKIP, "an unreachable instruction")
    assert "drops the entry that failed of 2 cells" in operator.get(address).text

    done = operator.post(urlsplit(address).path, operator.form(address))

    assert ended(operator, done.headers["location"])["done"] == len(TRAPPED)
    rows = operator.get(f"{operator.base}/faults.json").json()["faults"]
    assert not {each["key"] for each in rows} & set(TRAPPED)
    assert operator.get(address).status_code == 409


def test_items_that_the_world_refuses_are_shown_with_the_reason(
    operated: Path, operator: FormBrowser
) -> None:
    """PG-66: one of the cells was skipped by a command, before the batch came to it."""
    address = button(operator, "/cells?status=failed&key_prefix=s-", SKIP)
    begun = operator.post(urlsplit(address).path, operator.form(address) | {"rate": "30/min"})
    assert here("cells", "retry", "puppet", SLOW[1], "--skip", "-w", operated).code == 0

    done = ended(operator, begun.headers["location"])

    assert (done["done"], done["refused"], done["status"]) == (1, 1, "done")
    shown = " ".join(read_page(operator.get(begun.headers["location"])).text.split())
    [refusal] = done["refusals"]
    for each in ("1 of 1 items that the world refused", refusal["rule"], refusal["detail"]):
        assert each in shown


def test_a_batch_that_has_begun_is_the_answer_to_its_form(operator: FormBrowser) -> None:
    """PG-69: also for a form with other fields, such as one of a person who went back."""
    address = button(operator, "/cells?status=failed&key_prefix=f-0", RETRY)
    path, form = urlsplit(address).path, operator.form(address)
    first = operator.post(path, form)
    ended(operator, first.headers["location"])
    known = len(batches(operator))

    again = operator.post(path, form | {"rate": "1/h"})

    assert again.headers["location"] == first.headers["location"]
    assert len(batches(operator)) == known


def test_a_batch_of_retries_is_no_answer_to_a_form_that_skips(
    operated: Path, operator: FormBrowser
) -> None:
    """PG-69, PG-76: also if the form has the same id, because it was sent to the other path."""
    address = button(operator, "/cells?status=failed&key_prefix=f-0", RETRY)
    path, form = urlsplit(address).path, operator.form(address)
    other = path.replace("/retry", "/skip")
    shown = operator.post(other, form)
    assert shown.status_code == 403
    done = ended(operator, operator.post(path, form).headers["location"])
    before = counts(operated, "f-0")

    late = operator.post(other, hidden(shown))

    assert late.status_code == 409, late.headers
    assert done["action"] == "retry"
    commands = controls(operated, "f-0")
    assert {each.restamp for each in commands if each.action == "retry"} == {True}
    assert counts(operated, "f-0") == before


def test_a_reader_has_no_button_and_no_form(
    operated: Path, operator: FormBrowser, reader: FormBrowser
) -> None:
    """PG-60, PG-67, PG-68"""
    address = button(operator, "/cells?status=failed&key_prefix=f-", RETRY)
    path, known = urlsplit(address).path, len(batches(operator))
    begun = operator.post(path, operator.form(address) | {"rate": "1/h"}).headers["location"]
    for each in ("/cells?status=failed", "/faults", "/batches"):
        assert buttons(reader.get(reader.base + each)) == {}
    assert buttons(reader.get(begun)) == {}

    for form in (address, f"{begun}/stop"):
        assert reader.get(form).status_code == 403
        refused = reader.post(urlsplit(form).path, operator.form(form))
        assert (refused.status_code, "operate" in refused.text) == (403, True)
    assert len(batches(operator)) == known + 1
    assert operator.get(f"{begun}.json").json()["status"] == "running"
    for fields in (operator.form(f"{begun}/stop"), operator.form(address) | {"form": "x.y"}):
        assert operator.post(path, fields).status_code == 403, "a form of another path, or none"


def test_a_form_that_cannot_be_shown_has_a_sentence(operator: FormBrowser) -> None:
    """PG-61, PG-69"""
    base = operator.base
    for query, status, sentence in (
        ("where=key+%3D+none", 409, "no failed cell passes this condition"),
        ("where=nothing+%3D+1", 400, "where, column"),
        ("where=" + "x" * 1_025, 400, "where"),
        ("workflow=none", 404, "none"),
        ("workflow=&where=key+%3D+f-0", 400, "workflow"),
        ("action=skip", 400, "action"),
        ("where=key+^%3D+f&where=x", 400, "where: given 2 times"),
    ):
        found = operator.get(f"{base}/cells/retry?{query}")
        assert found.status_code == status, (query, found.text)
        assert sentence in read_page(found).text
    form = operator.form(f"{base}/cells/retry")
    for given in ({"seen": ""}, {"seen": "x"}, {"where": "x" * 9_000}):
        assert operator.post(f"{base}/cells/retry", form | given).status_code in (400, 413)
    assert operator.post(f"{base}/cells/retry", form | {"where": "("}).status_code == 400


@pytest.mark.parametrize("text", [*HOSTILE, 'say "no" \\ and', "ü" * 400, ""])
def test_a_message_of_any_text_is_found_by_a_condition(text: str) -> None:
    """PG-67"""
    where = condition_of_group({"where": " total > 9 order by total desc "}, "trap", text)

    found = parse(where)

    kind, message, own = found.terms
    assert isinstance(kind, Term)
    assert isinstance(message, Term)
    assert isinstance(own, Term)
    assert [each.word for each in (*kind.literals, *own.literals)] == ["trap", "9"]
    assert found.order is not None
    assert found.is_descending
    begin = message.literals[0].word
    assert text.startswith(begin)
    assert message.operator == ("=" if begin == text else "^=")
    assert len(where.encode()) < 900
    # The page shows control characters as escapes, which mean the same in quotes.
    shown = parse(visible(where)).terms[1]
    assert isinstance(shown, Term)
    assert shown.literals[0].word == begin


def test_filters_become_one_condition() -> None:
    """PG-67"""
    for given, expected in (
        ({"status": "failed"}, ""),
        ({"fault": "trap", "where": "order by key"}, "fault = trap order by key"),
        ({"key_prefix": 'a"b', "pinned": True}, 'key ^= "a\\"b" and pinned = true'),
        ({"where": "total > 9"}, "total > 9"),
        ({"key_prefix": "o-", "where": "total > 9"}, 'key ^= "o-" and total > 9'),
        (
            {"fault": "trap", "where": "a = 1 or b = 2 order by key desc"},
            "fault = trap and (a = 1 or b = 2) order by key desc",
        ),
        (
            {"fault": "trap", "where": "(a = 1 or b = 2) and not c = 3"},
            "fault = trap and (a = 1 or b = 2) and not c = 3",
        ),
    ):
        assert condition_of_list(given) == expected
    assert joined(None, ["fault_record <= 4"]) == "fault_record <= 4"
    assert joined(None, []) == ""


def test_only_lists_that_a_batch_can_have_have_buttons() -> None:
    """PG-67: never for more cells than the list has."""
    links = PageLinks("/w/x", None)
    shown = PageButtons(links, signs=True)
    for given in ({}, {"status": "running"}, {"where": "fault = trap"}):
        assert shown.of_list(given) == []
    for name in ("waits_for", "older_than"):
        assert shown.of_list({"status": "failed", name: "5m"}) == []
    assert PageButtons(links, signs=False).of_list({"status": "failed"}) == []
    retry, skip = shown.of_list({"status": "failed", "workflow": "a/b@1", "key_prefix": "é"})
    assert (retry.text, skip.text) == (RETRY, SKIP)
    assert parse_qs(urlsplit(retry.address).query) == {
        "workflow": ["a/b@1"], "where": ['key ^= "é"'],
    }  # fmt: skip
    full = {"kind": "overloaded", "message": "its mailbox was full"}
    assert [each.text for each in shown.of_group({}, full)] == [RETRY]

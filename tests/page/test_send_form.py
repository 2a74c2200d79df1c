"""Events that are sent from a node's page, each once (spec/page.md, PG-70 to PG-75)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.manifest.load import load
from tests.cli.shell import here
from tests.host import puppet
from tests.memory_world import schema
from tests.node.test_node_process import Started, started
from tests.page.browser import read_page
from tests.page.conftest import HOSTILE
from tests.page.form_browser import FormBrowser, hidden, made
from tests.page.hostile import TEXTS
from tests.page.test_page_buttons import together

NOTE = "host/Note@1"
"""A schema of the manifest that no workflow takes."""

WILD = "host/Wild@1"
"""A schema whose fields have hostile names."""

BOUND: Any = {"world": {"event_bytes": 64 * 1024}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("send") / "world"
    init_world(path)
    nodes = json.loads(puppet.files(limits=BOUND)["m.air.json"])
    wild: Any = {"record": {each: {"text": {}} for each in TEXTS}}
    for name, type_ in ((NOTE, {"record": {"text": {"text": {}}}}), (WILD, wild)):
        nodes.insert(0, schema(name, type_))
        nodes[-1]["schemas"].append({"name": name})
    files = puppet.files() | {"m.air.json": json.dumps(nodes).encode()}
    with open_writer(path) as writer:
        writer.apply(load(files))
    return path


@pytest.fixture(scope="module")
def secrets(shop: Path) -> dict[str, str]:
    return {
        "sender": made(shop, "sender", "read", "send"),
        "reader": made(shop, "reader", "read", "operate"),
        "notes": made(shop, "notes", "read", f"send:{NOTE}"),
    }


@pytest.fixture(scope="module")
def node(
    shop: Path, secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    assert secrets
    with started(shop, tmp_path_factory.mktemp("log") / "node.log") as found:
        yield found


def opened(node: Started, secret: str) -> Iterator[FormBrowser]:
    browser = FormBrowser(node.url).open(secret)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def sender(node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    yield from opened(node, secrets["sender"])


@pytest.fixture(scope="module")
def reader(node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    yield from opened(node, secrets["reader"])


@pytest.fixture(scope="module")
def notes(node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    yield from opened(node, secrets["notes"])


def events(path: Path, key: str | None = None) -> list[Event]:
    """The events of a world; those of the puppet with a key."""
    with open_reader(path) as found:
        return [
            each
            for frame in found.store.frames(1)
            for each in map(from_bytes, frame.records)
            if isinstance(each, Event) and (key is None or _has(each, key))
        ]


def _has(event: Event, key: str) -> bool:
    return isinstance(event.value, bytes) and key.encode() in event.value


def text_of(page: httpx.Response) -> str:
    """The text of the text area, to which the line end after its tag does not belong."""
    found = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", page.text, re.DOTALL)
    assert found is not None, page.text
    return unescape(found[1])


def do(key: str) -> str:
    return json.dumps({"key": key, "out": None, "trap": None})


class Filled:
    """A form of one event in a browser, as someone fills it in."""

    def __init__(self, browser: FormBrowser, schema: str = puppet.DO) -> None:
        self.browser = browser
        self.address = f"{browser.base}/send"
        self.page = browser.get(f"{self.address}?schema={schema}")
        self.fields = browser.form(f"{self.address}?schema={schema}")

    def send(self, text: str, **more: str) -> httpx.Response:
        """Press the button; a form that comes back is the one of the next press."""
        fields = self.fields | {"value": text.replace("\n", "\r\n")} | more
        found = self.browser.post(self.address, fields)
        if found.status_code != 303 and "<textarea" in found.text:
            read_page(found)
            self.fields = hidden(found)
        return found


def record_of(found: httpx.Response) -> int:
    assert found.status_code == 303, found.text
    return int(found.headers["location"].rpartition("/")[2])


def test_an_event_is_chosen_filled_in_and_sent(shop: Path, sender: FormBrowser) -> None:
    """PG-70, PG-71, PG-72"""
    overview = read_page(sender.get(f"{sender.base}/"))
    assert f"{sender.base}/send" in overview.links
    listed = sender.get(f"{sender.base}/send")
    link = f"{sender.base}/send?schema=host%2FDo%401"
    assert link in read_page(listed).links
    assert NOTE not in listed.text, "no workflow takes it"

    form = Filled(sender)
    assert json.loads(text_of(form.page)) == {"key": "text", "out": None, "trap": None}
    assert puppet.PUPPET in form.page.text

    seq = record_of(form.send(do("first")))
    record = sender.get(f"{sender.base}/record/{seq}.json").json()
    assert (record["schema"], record["value"]["key"]) == (puppet.DO, "first")
    assert record["to"] == [{"workflow": puppet.PUPPET, "key": "first"}]
    assert len(events(shop, "first")) == 1


def test_the_example_itself_is_an_event(shop: Path, sender: FormBrowser) -> None:
    """PG-71"""
    form = Filled(sender)
    assert form.send(text_of(form.page)).status_code == 303


def test_hostile_names_of_fields_are_shown_as_text(shop: Path, sender: FormBrowser) -> None:
    """PG-21, PG-71"""
    form = Filled(sender, WILD)
    assert json.loads(text_of(form.page)) == dict.fromkeys(TEXTS, "text")

    seq = record_of(form.send(text_of(form.page)))

    record = sender.get(f"{sender.base}/record/{seq}.json").json()
    assert record["value"] == dict.fromkeys(TEXTS, "text")


def test_the_list_is_filtered_by_a_part_of_the_name(sender: FormBrowser) -> None:
    """PG-70"""
    address = f"{sender.base}/send"
    for find, count in (("dO@", 1), ("host/", 1), ("nothing", 0), ("<b>", 0)):
        page = sender.client.get(address, params={"find": find})
        assert page.status_code == 200
        found = [each for each in read_page(page).links if "schema=" in each]
        assert len(found) == count, find
    rows = sender.get(f"{address}.json").json()["events"]
    assert rows == [{"schema": puppet.DO, "workflows": [puppet.PUPPET]}]
    for query in ("schema=", "other=1", "schema=a&schema=b", "schema=" + "x" * 600, "find=%ff"):
        assert sender.get(f"{address}?{query}").status_code == 400, query


def test_the_command_of_the_form_sends_the_same(
    sender: FormBrowser, secrets: dict[str, str]
) -> None:
    """PG-72"""
    form = Filled(sender)
    assert form.send(do("by-command")[:-1]).status_code == 400
    again = form.send(do("by-command").replace("null", '"no"', 1))
    words = read_page(again).command
    assert again.status_code == 422
    assert words is not None
    assert words[:3] == ["aos", "send", puppet.DO]
    assert words[-2:] == ["--node", sender.url]
    assert json.loads(words[3])["out"] == "no"

    words = read_page(Filled(sender).page).command
    assert words is not None
    done = here(*words[1:], env={"AOS_TOKEN": secrets["sender"]})
    assert done.code == 0, done.err


def test_a_form_sends_one_event_however_often_it_is_sent(shop: Path, sender: FormBrowser) -> None:
    """PG-73"""
    form = Filled(sender)
    fields = form.fields | {"value": do("twice")}
    found: list[httpx.Response] = []

    together(*[lambda: found.append(sender.post(form.address, fields))] * 4)
    found.append(sender.post(form.address, fields))
    spaced = do("twice").replace(" ", "\r\n")
    found.append(sender.post(form.address, fields | {"value": spaced}))

    assert len({record_of(each) for each in found}) == 1
    [record] = events(shop, "twice")
    assert record.seq == record_of(found[0])


def test_another_text_in_the_same_form_is_another_event(shop: Path, sender: FormBrowser) -> None:
    """PG-73: someone goes back, changes the text and sends it."""
    form = Filled(sender)

    first, second = (record_of(form.send(do(key))) for key in ("back-1", "back-2"))

    assert first != second
    assert record_of(form.send(do("back-1"))) == first
    assert [len(events(shop, key)) for key in ("back-1", "back-2")] == [1, 1]


def test_two_forms_with_the_same_text_are_two_events(shop: Path, sender: FormBrowser) -> None:
    """PG-73"""
    for _ in range(2):
        assert Filled(sender).send(do("same")).status_code == 303
    assert len(events(shop, "same")) == 2


BAD: list[tuple[str, int, str]] = [
    ("", 400, "JSON: $: expected a JSON value"),
    ("{", 400, "line 1, column 2"),
    ('{"key": "a"', 400, "expected a comma or }"),
    ('{"key": "a", "key": "b"}', 400, "duplicate key"),
    ('{"key": 1.5}', 400, "$.key: expected an integer"),
    ('{"key": 7}', 422, "$.key: expected text, found nat 7"),
    ("{}", 422, "$.key"),
    ('{"key": "a", "more": 1}', 422, "$.more"),
    ('{"key": "a", "out": "?"}', 422, "$.out: expected bytes"),
    ("[" * 200, 400, "nested too deep"),
    ("null", 422, "expected"),
    ('{"key": "' + "x" * 60_000 + "\u202e" + "<b>" * 5_000 + '"}', 422, "too large"),
    ('{"key": "' + "x" * 110_000 + '"}', 413, "at most"),
    ("</textarea><script>alert(1)</script>", 400, "expected a JSON value"),
    ('{"key": "\\ud800"}', 400, "lone surrogate"),
    ("{\n\t\n", 400, "line 3, column 1"),
    ("\n\n{", 400, "line 3, column 2"),
    *(("{" + text, 400, "JSON: ") for text in HOSTILE),
]


@pytest.mark.parametrize(("text", "status", "sentence"), BAD)
def test_a_text_that_does_not_fit_comes_back_and_the_form_still_sends(
    shop: Path, sender: FormBrowser, text: str, status: int, sentence: str
) -> None:
    """PG-74, PG-21"""
    before = len(events(shop))
    form = Filled(sender)

    found = form.send(text)

    assert found.status_code == status, found.text[:3000]
    assert sentence in unescape(found.text)
    shown = text_of(found)
    escaped = re.sub(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]",
        lambda match: f"\\u{ord(match[0]):04x}",
        text,
    )
    assert shown == escaped
    assert len(events(shop)) == before
    assert form.send(do("after")).status_code == 303
    assert len(events(shop)) == before + 1


def test_a_text_that_is_shown_again_has_the_same_value(shop: Path, sender: FormBrowser) -> None:
    """PG-74: marks that are shown as escapes are the same JSON."""
    form = Filled(sender)
    text = json.dumps({"key": "rtl \u202e <b>", "out": 7}, ensure_ascii=False)
    found = form.send(text)
    assert found.status_code == 422

    first = record_of(form.send(text_of(found).replace("7", "null")))
    second = record_of(form.send(text.replace("7", "null")))

    assert first == second
    record = sender.get(f"{sender.base}/record/{first}.json").json()
    assert record["value"]["key"] == "rtl \u202e <b>"


def test_a_long_event_is_sent_and_bounds_are_those_of_the_api(
    shop: Path, sender: FormBrowser
) -> None:
    """PG-74: the text of a form is three times as long as it is sent."""
    form = Filled(sender, NOTE)
    text = json.dumps({"text": "\u00e9" * 30_000}, ensure_ascii=False)
    assert form.send(text).status_code == 303
    assert sender.post(form.address, form.fields | {"value": "%" * 400_000}).status_code == 413


def test_a_text_that_is_too_long_is_not_parsed(sender: FormBrowser) -> None:
    """PG-74: 413, whatever is in it; to parse it may take seconds. It comes back."""
    form = Filled(sender, NOTE)
    text = "[" + "0," * 60_000

    refused = form.send(text)

    assert refused.status_code == 413
    assert "the body: expected at most" in refused.text
    assert text_of(refused) == text


def test_an_event_that_no_workflow_takes_is_sent_as_by_the_command(
    shop: Path, sender: FormBrowser
) -> None:
    """PG-72"""
    form = Filled(sender, NOTE)
    assert "It reaches no cell" in form.page.text

    seq = record_of(form.send('{"text": "hello"}'))

    record = sender.get(f"{sender.base}/record/{seq}.json").json()
    assert (record["schema"], record["to"]) == (NOTE, [])


def test_a_form_of_an_unknown_event_is_a_sentence(sender: FormBrowser) -> None:
    """PG-74"""
    for name, status, sentence in (
        ("host/None@1", 404, "is not in the manifest in force"),
        ("<b>", 404, "is not in the manifest in force"),
        ("sys/EffectReceiptEnvelope@1", 404, "only the kernel delivers"),
        ("aos/LinearResult@1", 403, "comes from claims of workers"),
    ):
        page = sender.client.get(f"{sender.base}/send", params={"schema": name})
        assert page.status_code == status
        assert sentence in read_page(page).text
    form = Filled(sender)
    for fields in ({"schema": "host/None@1"}, {"schema": ""}, {"schema": "x" * 600}):
        found = form.send(do("unknown"), **fields)
        assert found.status_code in (400, 404), found.text
        assert text_of(found) == do("unknown")
        form = Filled(sender)
    assert sender.post(form.address, {"form": form.fields["form"]}).status_code == 400


def test_only_a_token_that_may_send_sees_the_form(
    shop: Path, sender: FormBrowser, reader: FormBrowser, notes: FormBrowser
) -> None:
    """PG-70, PG-75"""
    before = len(events(shop))
    base = sender.base
    for address in ("/", "/manifest/host/Do@1"):
        assert "/send" in sender.get(base + address).text
        assert "/send" not in reader.get(base + address).text
    assert reader.get(f"{base}/send").status_code == 403
    refused = reader.post(f"{base}/send", Filled(sender).fields | {"value": do("no")})
    assert (refused.status_code, "send" in refused.text) == (403, True)

    assert notes.get(f"{base}/send?schema={puppet.DO}").status_code == 403
    assert puppet.DO not in notes.get(f"{base}/send").text
    assert "/send?" not in notes.get(f"{base}/manifest/host/Do@1").text
    form = Filled(notes, NOTE)
    other = form.send(do("no"), schema=puppet.DO)
    assert (other.status_code, "may not send" in other.text) == (403, True)
    assert len(events(shop)) == before


def test_the_definition_of_an_event_leads_to_its_form(sender: FormBrowser) -> None:
    """PG-75"""
    link = f"{sender.base}/send?schema=host%2FDo%401"
    assert link in read_page(sender.get(f"{sender.base}/manifest/host/Do@1")).links
    for name in (NOTE, "host/Word@1", puppet.PUPPET):
        assert "/send?" not in sender.get(f"{sender.base}/manifest/{name}").text
    assert "/send?" not in sender.get(f"{sender.base}/manifest/host/Do@1?at=2").text


def test_a_form_of_another_browser_is_shown_again_and_sends_nothing(
    shop: Path, sender: FormBrowser, node: Started, secrets: dict[str, str]
) -> None:
    """PG-63, PG-73"""
    before = len(events(shop))
    form = Filled(sender)
    other = FormBrowser(node.url).open(secrets["sender"])
    fields = form.fields | {"value": do("moved")}

    refused = other.post(form.address, fields)
    assert (refused.status_code, text_of(refused)) == (403, do("moved"))
    assert "nothing was done now" in refused.text
    for site in ("cross-site", "none"):
        assert sender.post(form.address, fields, **{"sec-fetch-site": site}).status_code == 403
    assert len(events(shop)) == before

    first = record_of(other.post(form.address, hidden(refused) | {"value": do("moved")}))
    assert record_of(sender.post(form.address, fields)) == first, "it is the same form"
    assert len(events(shop, "moved")) == 1
    other.close()


def test_programs_get_a_form_and_its_problems_as_documents(sender: FormBrowser) -> None:
    """PG-61, PG-74"""
    address = f"{sender.base}/send"
    found: Any = sender.get(f"{address}.json?schema={puppet.DO}").json()
    assert (found["action"], found["schema"]) == ("send", puppet.DO)
    assert json.loads(found["example"])["key"] == "text"
    form = Filled(sender)
    refused = sender.post(form.address, form.fields | {"value": "{"}, accept="application/json")
    assert (refused.status_code, refused.json()["rule"]) == (400, "body_is_malformed")

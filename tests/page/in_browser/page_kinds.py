"""One address of every kind of page of some worlds, found in their documents."""

from __future__ import annotations

import json
from typing import Any

import httpx

from aos.manifest.names import LINEAR
from aos.page.page_links import key_segment
from aos.values.cbor import encode
from tests.page.form_browser import FormBrowser
from tests.page.in_browser.page_process import WAIT_S


def page_kinds(origin: str) -> dict[str, str]:
    """The address of each kind of page of the first world, by name, as far as the world has it; and
    of the parts that any of the worlds has."""
    with httpx.Client(base_url=origin, timeout=WAIT_S, trust_env=False) as client:
        bases = [each["address"].rstrip("/") for each in _document(client, "/.json")["worlds"]]
        base = bases[0]
        found = {"worlds": "/", "world": "/", "not-found": "/record/999999999"}
        found |= {name: f"/{name}" for name in ("cells", "intents", "journal", "faults")}
        found |= {name: f"/{name}" for name in ("manifest", "proposals", "search")}
        found |= {"effects-of-all-times": "/intents?status=all", "no-match": "/search?q=nothing+at"}
        found |= {"matches": "/search?q=or", "no-cell": "/cells?status=failed&key_prefix=none"}
        for status in ("waiting", "completed", "failed", "running"):
            query = f"/cells.json?status={status}&sort=age&limit=1"
            for row in _document(client, base + query)["cells"]:
                key = key_segment(bytes.fromhex(row["key_cbor"]))
                for kind in ("cell", "trace", "steps"):
                    found[f"{kind}-{status}"] = f"/{kind}/{row['workflow']}/{key}"
        for status in ("open", "ok", "error"):
            for row in _document(client, f"{base}/intents.json?status={status}&limit=1")["intents"]:
                for kind in ("intent", "trace"):
                    found[f"{kind}-{status}"] = f"/{kind}/{row['intent'].partition(':')[2]}"
        about = _document(client, f"{base}/manifest.json")
        found["definition"] = f"/manifest/{about['workflows'][0]['name']}"
        found["value"] = f"/value/{about['modules'][0]['hash'].partition(':')[2]}"
        found["difference"] = f"/manifest/diff?since={about['versions'][0]['record']}"
        for kind in ("event", "step", "fault", "receipt", "control", "governance", "manifest"):
            text = client.get(f"{base}/journal.json?kind={kind}&limit=1").text
            for line in text.splitlines():
                found[f"record-{kind}"] = f"/record/{json.loads(line)['seq']}"
        for row in _document(client, f"{base}/proposals.json")["proposals"][:1]:
            found["proposal"] = f"/proposals/{row['proposal']}"
        if client.get(f"{base}/send").status_code == 200:  # a page of nodes
            events = _document(client, f"{base}/send.json")["events"]
            found |= {"send-list": "/send", "send-none": "/send?find=nothing"}
            found["send"] = f"/send?schema={events[0]['schema']}"
        own = {name: "/" if name == "worlds" else base + path for name, path in found.items()}
        parts = {f"no-{part}": f"{base}/{part}" for part in ("flows", "linear")}
        for each in bases:
            parts = {**_parts(client, each), **parts}
        return {**own, **parts}


def _parts(client: httpx.Client, base: str) -> dict[str, str]:
    """The pages of flows and linear instances of a world: one for each status."""
    found: dict[str, str] = {}
    flows = client.get(f"{base}/flows.json")
    for row in flows.json()["flows"] if flows.status_code == 200 else ():
        path = f"{row['workflow']}/{key_segment(bytes.fromhex(row['key_cbor']))}"
        found |= {"flows": f"{base}/flows", f"flow-{row['status']}": f"{base}/flow/{path}"}
        found |= {"flow-history": f"{base}/flow/{path}?history=1"}
        found |= {"cell-of-a-flow": f"{base}/cell/{path}"}
    linear = client.get(f"{base}/linear.json")
    for row in linear.json()["instances"] if linear.status_code == 200 else ():
        key, status = key_segment(encode(row["instance"])), row["status"].lower()
        found |= {"linear": f"{base}/linear", f"linear-{status}": f"{base}/linear/{key}"}
        found |= {"cell-of-a-linear-instance": f"{base}/cell/{LINEAR}/{key}"}
    for row in _document(client, f"{base}/proposals.json")["proposals"]:
        number = row["proposal"]
        found |= {"proposals-of-all": f"{base}/proposals", "versions": f"{base}/manifest"}
        found |= {f"proposal-{row['status']}": f"{base}/proposals/{number}"}
        for report in _document(client, f"{base}/proposals/{number}.json")["reports"][:1]:
            query = f"report={report['hash']}"
            found["shadow-report"] = f"{base}/proposals/{number}/report?{query}"
    lines = client.get(f"{base}/journal.json?kind=manifest").text.splitlines()
    first, *_, last = (json.loads(each)["seq"] for each in [*lines, *lines])
    found["difference-back"] = f"{base}/manifest/diff?since={last}&at={first}"
    return found


def operator_kinds(browser: FormBrowser) -> dict[str, str]:
    """The address of each kind of page that only operators of a node have, by name, as far as the
    world has it; also those of forms."""
    base = browser.base
    found = {name: f"/{name}" for name in ("tasks", "schedules", "batches", "faults")}
    found |= {"failed": "/cells?status=failed", "retry-all": "/cells/retry"}
    found |= {"skip-all": "/cells/skip?where=key+%5E%3D+f-"}
    for row in browser.get(f"{base}/schedules.json").json()["schedules"]:
        name = "schedule-paused" if row["paused"] else "schedule"
        found[name] = f"/schedule/{key_segment(encode(row['id']))}"
    for row in browser.get(f"{base}/batches.json").json()["batches"]:
        found[f"batch-{row['status']}"] = f"/batch/{row['id']}"
        if row["status"] == "running":
            found["stop"] = f"/batch/{row['id']}/stop"
    return {name: base + path for name, path in found.items()}


def _document(client: httpx.Client, address: str) -> Any:
    answer = client.get(address)
    assert answer.status_code == 200, (address, answer.text)
    return answer.json()

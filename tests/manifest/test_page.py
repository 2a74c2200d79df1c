"""The example of spec/manifest.md is a manifest."""

from __future__ import annotations

import re
from pathlib import Path

from aos.manifest.load import load

PAGE = (Path(__file__).parents[2] / "spec" / "manifest.md").read_text("utf-8")


def test_the_example_loads_as_it_is() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    loaded = load({"air/demo.json": example.encode(), "air/counter.wasm": b"any bytes"})
    (route,) = loaded.effective.subscriptions
    assert (route.event, route.workflow, route.key_field) == (
        "demo/Said@1",
        "demo/counter@1",
        "who",
    )

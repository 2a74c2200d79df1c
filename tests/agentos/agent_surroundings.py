"""The surroundings of the workflow ``agentos/agent@1``: briefs, a model, and a root."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

from tests.effects.llm.stub_model import DONE, USAGE, Script, StubModel, chunk, head, stub_model

ANSWER: Final = b'{"assistant_text":"forty-two"}'
"""The output of the model as the executor stores it."""


class Outside(NamedTuple):
    """The surroundings of the folder: options and variables of ``aos run``, and the URL of the
    briefs."""

    options: tuple[str | Path, ...]
    env: Mapping[str, str]
    briefs: str
    model: StubModel


@contextmanager
def outside(root: Path) -> Iterator[Outside]:
    """A server with briefs, and a model that answers after a quarter of a second."""

    class Briefs(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"role": "user", "content": f"brief {self.path}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    answer: Script = [
        head(),
        0.15,
        chunk({"content": "forty-"}),
        0.1,
        chunk({"content": "two"}, "stop"),
    ]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Briefs)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    place = f"127.0.0.1:{server.server_port}"
    try:
        with stub_model([*answer, chunk(usage=USAGE), DONE]) as model:
            options: tuple[str | Path, ...] = ("--allow-http", place, "--host-root", root)
            for name in ("llm", "workspace"):
                options += ("--executors", f"aos.effects.{name}:{name}")
            env = {"AOS_LLM_ENDPOINTS": f"local={model.url}"}
            yield Outside(options, env, f"http://{place}", model)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

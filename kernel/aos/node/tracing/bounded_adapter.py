"""Bounds for the requests of the exporter of spans (spec/node-tracing.md, N-86b).

``requests`` reads the answer to a request whole and unpacked, and its time limit starts again with
each byte that comes.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import weakref
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

EXCHANGE_S: Final = 10.0
"""Seconds of one request without another limit: from the connection to the end of the header."""


class BoundedAdapter(HTTPAdapter):
    """Ends each request in time, and reads no body: only the status of an answer counts."""

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Called by requests: make the pools, whose connections can be cut."""
        super().init_poolmanager(*args, **kwargs)
        noted = self._connections

        class Plain(HTTPConnection):
            def connect(self) -> None:
                noted.add(self)
                super().connect()

        class Secured(HTTPSConnection):
            def connect(self) -> None:
                noted.add(self)
                super().connect()

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecuredPool(HTTPSConnectionPool):
            ConnectionCls = Secured

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecuredPool}

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: ARG002  # the body is not read
        timeout: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> requests.Response:
        """Called by requests. The answer has an empty body."""
        seconds = timeout if isinstance(timeout, int | float) else EXCHANGE_S
        is_late = threading.Event()
        timer = threading.Timer(seconds, self._cut, [is_late])
        timer.daemon = True
        timer.start()
        try:
            answer = super().send(request, True, timeout, *args, **kwargs)
        finally:
            timer.cancel()
        if is_late.is_set():
            # A header that was cut off looks as if it were complete.
            answer.raw.close()
            raise requests.ReadTimeout(f"no answer within {seconds:g} s", request=request)
        if answer.raw.length_remaining == 0:
            answer.raw.read()
            answer.raw.release_conn()
        else:
            answer.raw.close()
        answer.raw = io.BytesIO()
        return answer

    def _cut(self, is_late: threading.Event) -> None:
        is_late.set()
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

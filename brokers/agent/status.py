"""The agent's page on loopback: `/health`, `/ready`, `/status`, `/metrics`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Page:
    """An answer.

    Args:
        status: HTTP status.
        body: the text.
        kind: its media type.
    """

    status: int
    body: str
    kind: str = "application/json"


def json_page(document: object, status: int = 200) -> Page:
    """A JSON document as an answer."""
    return Page(status, json.dumps(document, indent=1, sort_keys=True) + "\n")


class StatusServer:
    """Serves pages on loopback from a thread of its own.

    Args:
        port: TCP port; 0 takes a free one.
        pages: path -> function that makes the page.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(pages))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="status", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(pages: Mapping[str, Callable[[], Page]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "portcullis"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            make = pages.get(self.path.partition("?")[0])
            page = make() if make else json_page({"error": "no such page"}, 404)
            body = page.body.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.kind + "; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests of monitors are not worth a line each."""

    return Handler

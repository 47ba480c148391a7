"""`medley report RUNS --serve`: the page from this machine, with fresh numbers while runs are under way.

It only reads, and hands out three things: the page, its data, and videos below the given folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from medley.errors import MedleyError
from medley.reporting import page
from medley.reporting.following import Follower

LOCAL = "127.0.0.1"
_LOCAL_NAMES = {"127.0.0.1", "localhost"}
_PIECE = 1 << 20


class Server(ThreadingHTTPServer):
    """Threads, so that a long video does not keep other pages waiting; they end with the program."""

    daemon_threads = True

    def __init__(self, follower: Follower, host: str = LOCAL, port: int = 0) -> None:
        self.follower = follower
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MedleyError(f"Nothing can be served on {host}:{port} ({error}): choose another --port.") from error

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}/"


def serve(
    paths: Sequence[Path],
    by: str | None = None,
    host: str = LOCAL,
    port: int = 8000,
    say: Callable[[str], None] = print,
) -> None:
    """Until Ctrl-C, which is how it ends: quietly."""
    try:
        follower = Follower(paths, by)
        follower.answer()  # what is wrong with the folders or with `by` is said here, not to a browser
        with Server(follower, host, port) as server:
            say(f"Following {', '.join(map(str, paths))} on {server.address} (Ctrl-C ends it).")
            if host not in _LOCAL_NAMES:
                say("Whoever reaches this machine can read these runs.")
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("")


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "medley", ""
    timeout = 60

    def do_GET(self) -> None:
        try:
            self._answer()
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True  # the reader went away, as readers of videos do

    do_HEAD = do_GET

    def _answer(self) -> None:
        # A page from elsewhere whose name was made to mean this machine must not read on (DNS rebinding).
        name = re.sub(r":\d+$", "", self.headers.get("Host", ""))
        if self.server.server_address[0] in _LOCAL_NAMES and name not in _LOCAL_NAMES:
            return self._send(HTTPStatus.FORBIDDEN, b"Served for this machine only; see --host.", "text/plain")
        address = urlsplit(self.path)
        place = unquote(address.path)
        if place == "/":
            return self._send(HTTPStatus.OK, self.server.follower.page().encode(errors="replace"), "text/html")
        if place == "/data.json":
            since = parse_qs(address.query).get("since", [""])[0]
            return self._send(HTTPStatus.OK, self.server.follower.answer(since).encode(), "application/json")
        video = self.server.follower.video(place.removeprefix("/files/")) if place.startswith("/files/") else None
        if video is None:
            return self._send(HTTPStatus.NOT_FOUND, b"There is no such thing here.", "text/plain")
        return self._video(video)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self._headers(f"{kind}; charset=utf-8", len(content))
        self.send_header("Content-Security-Policy", page.policy(served=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _headers(self, kind: str, length: int) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")  # none outlives the server
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")

    def _video(self, path: Path) -> None:
        """The file or the part of it that was asked for: a browser asks for parts to jump to a moment."""
        size = path.stat().st_size
        first, last = 0, size - 1
        asked = re.fullmatch(r"bytes=(\d{1,18})-(\d{0,18})", self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2]), last) if asked[2] else last
            if first > last:
                return self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", "text/plain")
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        self._headers("video/mp4", last - first + 1)
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        left = last - first + 1 if self.command != "HEAD" else 0
        with path.open("rb") as file:
            file.seek(first)
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                self.wfile.write(piece)
                left -= len(piece)

    def log_message(self, format: str, *args: object) -> None:
        """The console belongs to whoever started it."""

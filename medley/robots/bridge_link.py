"""The learner's end of the line to an arm elsewhere: messages, their answers, and whose clock says what.

Whatever goes wrong here is an `ArmFault`, and the line is closed: the other side notices at once and holds the arm.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import NamedTuple

import numpy as np

from medley.robots.arm import ArmFault
from medley.robots.bridge_server import FINE, HEADER, MAGIC, REPLY, REQUEST, TARGET, VERSION
from medley.robots.limits import Array

CONNECT_TIME = 2.0  # seconds
EXCHANGES = 64  # that a clock's offset is estimated from: some seconds' worth, in which clocks hardly drift apart


class Reply(NamedTuple):
    status: int
    number: int
    t_sample: float  # of this side's monotonic clock
    seq: int
    position: Array
    words: str
    t_read: float


class Link:
    def __init__(self, address: tuple[str, int]) -> None:
        self._name = "{}:{}".format(*address)
        try:
            self._socket = socket.create_connection(address, CONNECT_TIME)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as e:
            raise ArmFault(f"nothing answers at {self._name}: {e.strerror or e}") from None
        self._bytes, self._number = b"", 0
        self._asked: dict[int, tuple[int, float]] = {}  # kinds and times of requests that were not answered yet
        self._offsets: deque[tuple[float, float]] = deque(maxlen=EXCHANGES)  # time on the way, their clock minus ours
        self.refused = ""  # why a target was not obeyed

    def post(self, kind: int, *numbers: float) -> int:
        """Send a request, without waiting; returns its number."""
        self._number += 1
        padded = (*numbers, *[0.0] * (9 - len(numbers)))
        self._asked[self._number] = kind, time.monotonic()
        try:
            self._socket.sendall(REQUEST.pack(MAGIC, VERSION, kind, self._number, *padded))
        except OSError as e:
            raise self._lost(e.strerror or str(e)) from None
        return self._number

    def ask(self, kind: int, *numbers: float, seconds: float) -> Reply:
        """Send a request and wait for its answer; those to earlier ones come before it."""
        number = self.post(kind, *numbers)
        give_up = time.monotonic() + seconds
        while (reply := self._next(give_up)).number != number:
            pass
        return reply

    def close(self) -> None:
        self._socket.close()

    def _next(self, give_up: float) -> Reply:
        while len(self._bytes) < REPLY.size:
            try:
                self._socket.settimeout(max(1e-4, give_up - time.monotonic()))
                got = self._socket.recv(65536)
            except TimeoutError:
                raise self._lost("no answer in time") from None
            except OSError as e:
                raise self._lost(e.strerror or str(e)) from None
            if not got:
                raise self._lost("the other side has gone")
            self._bytes += got
            self._check_version()
        now = time.monotonic()
        _, _, status, number, arrived, left, t_sample, seq, *position, text = REPLY.unpack_from(self._bytes)
        self._bytes = self._bytes[REPLY.size :]
        words = text.rstrip(b"\0").decode(errors="replace")
        if number == 0:  # it answers to the connection itself
            raise self._lost(words)
        if number not in self._asked:
            raise self._lost("its answers are out of order")
        kind, sent = self._asked.pop(number)
        # What was spent on the way is divided evenly; the exchange that spent least is wrong by least.
        self._offsets.append(((now - sent) - (left - arrived), ((arrived - sent) + (left - now)) / 2))
        if kind == TARGET and status != FINE:
            self.refused = words
        return Reply(status, number, t_sample - min(self._offsets)[1], seq, np.array(position), words, now)

    def _check_version(self) -> None:
        if len(self._bytes) >= HEADER.size:
            magic, version = HEADER.unpack_from(self._bytes)
            if magic != MAGIC:
                raise self._lost("that is no bridge to an arm")
            if version != VERSION:
                raise self._lost(f"it speaks version {version} of the bridge, this side {VERSION}")

    def _lost(self, why: str) -> ArmFault:
        self.close()
        return ArmFault(f"the arm at {self._name} was lost: {why}")

"""What runs in a worker process: the envs of some slots, and the loop that waits for commands.

A command is a few bytes, and so is the answer; actions and results stand in the shared block.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import select
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection

from medley.envs.slots import RESET, Block, Layout, Recipe, Slot
from medley.errors import MedleyError

CLOSE, RENDER = b"c", b"p"
DONE = b""
WATCH_SECONDS = 0.0005


def main() -> None:
    """The process's own number, the connection and the memory are named on the command line by its parent."""
    number, connection, memory = map(int, sys.argv[2:5])
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    try:
        _serve(number, Connection(connection), memory)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        os._exit(1)  # the parent is gone


def _die_with_the_parent() -> None:
    """Nothing is ever written to the standard input; it ends when the parent does, even while an env hangs."""
    os.read(0, 1)
    os._exit(1)


def _serve(number: int, connection: Connection, memory: int) -> None:
    slots: dict[int, Slot] = {}
    # Pickles go between a parent and the children it started, over a socket that has no name; none is ever in a file.
    recipes: dict[int, Recipe] = pickle.loads(connection.recv_bytes())
    for row, recipe in recipes.items():
        try:
            slots[row] = recipe.open()
        except Exception as error:
            connection.send_bytes(_failure(f"{recipe.task} could not be made:", error))
            return
    connection.send_bytes(pickle.dumps([slot.describe() for slot in slots.values()]))
    layout = Layout(*pickle.loads(connection.recv_bytes()))
    block = Block.at(mmap.mmap(memory, layout.size()), layout)
    for row, slot in slots.items():
        slot.attach(block, row)
    gc.collect()
    gc.freeze()  # what was imported and built lives as long as the process: never look at it again
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    wanted, busy = block.wanted, block.busy[number : number + 1]
    while (command := _next(connection, poll)) != CLOSE:
        answer = DONE
        try:
            if command[:1] == RENDER:
                busy[0], width, height = map(int, command[1:].split())
                answer = pickle.dumps(slots[int(busy[0])].render(width, height))
            else:
                for row, slot in slots.items():
                    if wanted[row]:
                        busy[0] = row
                        slot.reset() if command == RESET else slot.step()
        except Exception as error:
            answer = _failure("", error)
        connection.send_bytes(answer)
    for slot in slots.values():
        slot.close()


def _next(connection: Connection, poll: select.poll) -> bytes:
    """Looks out for the next command for a moment before sleeping: a core that has gone to sleep wakes slowly. Whoever
    else wants the core gets it."""
    until = time.perf_counter() + WATCH_SECONDS
    while not poll.poll(0) and time.perf_counter() < until:
        os.sched_yield()
    return connection.recv_bytes()


def _failure(what: str, error: Exception) -> bytes:
    """An error as the parent raises it; an env's own comes as text, since its class may not exist there."""
    if isinstance(error, MedleyError):
        return pickle.dumps(error)
    return pickle.dumps(MedleyError(f"{what}\n{traceback.format_exc()}".strip()))

"""Errors that are the user's to read: the command line prints their text and no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MedleyError(Exception):
    """Something a user can act on. The message says what is wrong and what to do."""


class ConfigError(MedleyError):
    """What was asked for does not exist or does not fit together."""


class NonFiniteError(MedleyError):
    """A number that training depends on is NaN or infinite."""


class DamagedError(MedleyError):
    """A file of a run is not what was written."""


def closest(name: str, known: Iterable[str], count: int = 3) -> str:
    """A hint such as ` Did you mean 'reach' or 'push'?`, or all names when none is close."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=count, cutoff=0.5)
    if near:
        return " Did you mean " + " or ".join(repr(n) for n in near) + "?"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f" Known: {shown}." if names else ""

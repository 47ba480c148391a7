"""Hydra takes a fifth of a second per command; compose each choice of medley's own files once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from medley.config import load


@pytest.fixture(scope="session", autouse=True)
def _remember_compositions() -> Iterator[None]:
    known: dict[Any, Any] = {}
    compose, names = load._Composer.compose, load._Composer.names

    def remember(kind: str, what: Any, key: Any, self: load._Composer) -> Any:
        if self.searchpath:  # a test's own folder: never remembered
            return what(self, key)
        place = (kind, str(key))
        if place not in known:
            known[place] = what(self, key)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load._Composer, "compose", lambda self, words: remember("compose", compose, words, self))
        patch.setattr(load._Composer, "names", lambda self, group: remember("names", names, group, self))
        yield

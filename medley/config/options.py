"""How an option is declared: a dataclass field with a default and one line of meaning."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any


def opt(default: Any, meaning: str) -> Any:
    """A dataclass field whose one-line meaning `medley list options` prints."""
    metadata = {"meaning": meaning}
    if isinstance(default, list | dict) or dataclasses.is_dataclass(default):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def describe(schema: type, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every option below `schema` as (dotted name, default, meaning), in the order of declaration."""
    instance = schema()
    for field in dataclasses.fields(schema):
        name = f"{prefix}{field.name}"
        value = getattr(instance, field.name)
        if dataclasses.is_dataclass(value):
            yield from describe(type(value), name + ".")
        else:
            yield name, value, field.metadata.get("meaning", "")

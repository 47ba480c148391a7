"""What one job may use, and what is done before it starts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from medley.errors import ConfigError, closest


@dataclass(frozen=True)
class Resources:
    gpus: float = 0.0  # a fraction (on Ray) lets several runs share one
    cpus: int = 1
    memory: str = ""  # "16G"; empty: what the cluster gives
    time: str = ""  # "24:00:00"; empty: what the cluster gives
    partition: str = ""
    account: str = ""
    container: str = ""  # a command that goes before its own python3, like "apptainer exec --nv medley.sif"
    before: str = ""  # a shell line that is run first, like "module load cuda"
    per_job: int = 1  # runs side by side in one job, on one GPU
    array: int = 0  # jobs of an array that run at once; 0: as many as fit

    def changed(self, key: str, value: str) -> Resources:
        known = {f.name: f.type for f in fields(self)}
        if key not in known:
            raise ConfigError(f"resources.{key} does not exist.{closest(key, list(known))}")
        kind = {"float": float, "int": int, "str": str}[str(known[key])]
        try:
            made = kind(value)
        except ValueError:
            raise ConfigError(f"resources.{key}={value}: that should be a number.") from None
        if not isinstance(made, str) and (made < 0 or (key in ("cpus", "per_job") and made < 1)):
            raise ConfigError(f"resources.{key}={value} is too small.")
        return replace(self, **{key: made})

"""Families of models that differ in one attribute, as HiP-BMDP uses them, made by editing dm_control's own XML.

Member k = 0…9 has the k-th value. Geometry is edited before the model is compiled, since masses follow from it.
"""

from __future__ import annotations

import dataclasses
import importlib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from medley.config.options import opt
from medley.envs.dmc.config import SuiteConfig, check_options
from medley.errors import ConfigError, closest

MEMBERS = range(10)
# Published for the finger; used for all four. 0 and 1 are in no set.
TRAIN, INTERPOLATION, EXTRAPOLATION = [3, 4, 7, 8], [5, 6], [2, 9]


def _find(model: ET.Element, path: str) -> ET.Element:
    found = model.find(path)
    assert found is not None, path
    return found


def _finger_sites(model: ET.Element, k: int) -> None:
    """The original: only the first half-axis of two invisible sensor sites. From pixels all members are the same."""
    site = _find(model, ".//default[@class='finger']/site")
    site.set("size", f"{0.025 * (k + 1):.10g} " + " ".join(site.attrib["size"].split()[1:]))


def _finger_scaled(model: ET.Element, k: int) -> None:
    """The last link of the finger, and its sensors, thinner or thicker: 0.6 to 1.5 times."""
    for path in ("geom[@name='distal']", "geom[@name='fingertip']"):
        _scale(_find(model, f".//{path}"), 0.6 + 0.1 * k)
    _scale(_find(model, ".//default[@class='finger']/site"), 0.6 + 0.1 * k)


def _scale(element: ET.Element, factor: float) -> None:
    element.set("size", " ".join(f"{factor * float(size):.10g}" for size in element.attrib["size"].split()))


def _cheetah_torso(model: ET.Element, k: int) -> None:
    """The torso's half-length; legs and head stay where they are attached."""
    half = f"{0.5 + 0.1 * k:.10g}"
    _find(model, ".//geom[@name='torso']").set("fromto", f"-{half} 0 0 {half} 0 0")


def _walker_friction(model: ET.Element, k: int) -> None:
    """Sliding friction of every geom, the floor too."""
    geom = _find(model, "./default/geom")
    geom.set("friction", f"{0.7 + 0.1 * k:.10g} " + " ".join(geom.attrib["friction"].split()[1:]))


def _walker_foot(model: ET.Element, k: int) -> None:
    """Half-length of the left foot alone."""
    foot = _find(model, ".//geom[@name='left_foot']")
    foot.set("size", f"{foot.attrib['size'].split()[0]} {0.08 + 0.01 * k:.10g}")


@dataclass(frozen=True)
class Attribute:
    """What varies, in which task, with the task's own limits."""

    domain: str
    task: str
    seconds: float
    control_timestep: float
    families: dict[str, Callable[[ET.Element, int], None]] = field(hash=False)  # the first one is the default


ATTRIBUTES = {
    "finger-size": Attribute("finger", "spin", 20, 0.02, {"scaled": _finger_scaled, "reference": _finger_sites}),
    "cheetah-torso": Attribute("cheetah", "run", 10, 0.01, {"reference": _cheetah_torso}),
    "walker-friction": Attribute("walker", "walk", 25, 0.025, {"reference": _walker_friction}),
    "walker-foot": Attribute("walker", "walk", 25, 0.025, {"reference": _walker_foot}),
}


@dataclass
class FamilyConfig(SuiteConfig):
    """Options of HiP-BMDP's families."""

    name: str = opt("hipbmdp", "name of the environment, the first part of the run folder")
    builder: str = opt("hipbmdp", "which kind of environment this is (see `medley list envs`)")
    attribute: str = opt("finger-size", "what varies: finger-size, cheetah-torso, walker-friction or walker-foot")
    family: str | None = opt(
        None,
        "how it varies. finger-size: `scaled` (the default) changes the finger; `reference` only its invisible "
        "sensors, as the original code does, so that all members look and pay alike",
    )
    members: list[int] | None = opt(None, "the members 0…9 that are the tasks; null: the training set 3,4,7,8")
    floor: str = opt("blue", "colour of the floor: `blue` as in today's dm_control, or `grey` as in the original code")


@dataclass(frozen=True)
class Member:
    """One model of a family, to be made wherever it is to run."""

    attribute: str
    family: str
    k: int
    floor: str = "blue"

    def load(self, suite: Any) -> Any:
        """The domain's own physics and task around the edited model."""
        from dm_control.rl import control

        kind = ATTRIBUTES[self.attribute]
        domain = importlib.import_module(f"dm_control.suite.{kind.domain}")
        task = suite.load(kind.domain, kind.task, {"random": 0}).task
        physics = domain.Physics.from_xml_string(*self.model(*domain.get_model_and_assets()))
        return control.Environment(physics, task, time_limit=kind.seconds, control_timestep=kind.control_timestep)

    def model(self, xml: str | bytes, assets: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """dm_control's text and what it includes, edited."""
        model = ET.fromstring(xml)
        ATTRIBUTES[self.attribute].families[self.family](model, self.k)
        if self.floor == "grey":
            assets = {name: _grey(text) if name.endswith("materials.xml") else text for name, text in assets.items()}
        return ET.tostring(model, encoding="unicode"), assets


def _grey(materials: str | bytes) -> bytes:
    tree = ET.fromstring(materials)
    grid = _find(tree, ".//texture[@name='grid']")
    grid.attrib.update(rgb1=".1 .1 .1", rgb2=".2 .2 .2", markrgb=".2 .2 .2")
    return ET.tostring(tree)


def members(cfg: FamilyConfig) -> list[Member]:
    """The members that are the tasks, with everything that was typed checked."""
    check_options(cfg)
    if cfg.attribute not in ATTRIBUTES:
        raise ConfigError(f"env.attribute={cfg.attribute!r} does not exist.{closest(cfg.attribute, ATTRIBUTES)}")
    known = list(ATTRIBUTES[cfg.attribute].families)
    family = known[0] if cfg.family is None else cfg.family
    if family not in known:
        raise ConfigError(f"env.family={family!r} does not exist for {cfg.attribute}.{closest(family, known)}")
    if cfg.floor not in ("blue", "grey"):
        raise ConfigError(f"env.floor={cfg.floor!r} does not exist.{closest(cfg.floor, ['blue', 'grey'])}")
    chosen = TRAIN if cfg.members is None else cfg.members
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(MEMBERS):
        raise ConfigError(f"env.members={chosen} must be some of the members 0 to {MEMBERS[-1]}, each once.")
    return [Member(cfg.attribute, family, k, cfg.floor) for k in chosen]


def family_tasks(cfg: FamilyConfig) -> list[str]:
    """`finger-size-3`."""
    return [f"{member.attribute}-{member.k}" for member in members(cfg)]


def evaluation_sets(cfg: FamilyConfig) -> dict[str, FamilyConfig]:
    """What lies between the members that are trained on, and what lies beyond."""
    trained = {member.k for member in members(cfg)}
    sets = {"interpolation": INTERPOLATION, "extrapolation": EXTRAPOLATION}
    unseen = {name: [k for k in own if k not in trained] for name, own in sets.items()}
    return {name: dataclasses.replace(cfg, members=own) for name, own in unseen.items() if own}

"""The recipe for Apptainer, and runs that are started in a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from medley.cli import main
from medley.envs.gl import PACKAGES
from medley.scale.folder import is_finished
from tests.scale.test_sweep import NAMED

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "containers" / "medley.def"
KNOWN = {"arguments", "files", "post", "environment", "runscript", "test", "labels", "help"}


def sections() -> dict[str, str]:
    """What stands below every %name; the lines before the first are the header."""
    parts = re.split(r"^%(\w+)\n", RECIPE.read_text(), flags=re.MULTILINE)
    assert len(parts) % 2 == 1
    return {"header": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def arguments() -> dict[str, str]:
    lines = [line.strip() for line in sections()["arguments"].splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str) -> str:
    return re.sub(r"{{ (\w+) }}", lambda found: arguments()[found.group(1)], text)


def test_every_section_and_argument_exists() -> None:
    assert set(sections()) == {"header", *KNOWN}
    used = set(re.findall(r"{{ (\w+) }}", RECIPE.read_text()))
    assert used == set(arguments())
    assert filled(sections()["header"]).startswith("Bootstrap: docker\nFrom: python:3.11-slim-bookworm\n")
    assert sections()["test"].strip() == "medley doctor"
    assert sections()["runscript"].strip() == 'exec medley "$@"'


@pytest.mark.parametrize("name", ["post", "environment", "runscript", "test"])
def test_scripts_are_shell(name: str) -> None:
    for shell in ("bash", "dash") if shutil.which("dash") else ("bash",):
        done = subprocess.run([shell, "-n"], input=filled(sections()[name]), text=True, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_files_are_all_that_is_installed() -> None:
    """A package built from what is copied, and nothing else, has everything in it."""
    copied = [line.split() for line in sections()["files"].strip().splitlines()]
    assert all((ROOT / source).exists() and place == f"/opt/medley/source/{source}" for source, place in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {source for source, _ in copied}
    assert {"pyproject.toml", "requirements.lock", "medley", project["readme"]} <= names
    assert set(arguments()["EXTRAS"].split(",")) <= set(project["optional-dependencies"])
    wanted = next(w for w in project["dependencies"] if w.startswith("torch"))
    assert arguments()["TORCH"] == re.search(r"torch==[\d.]+", (ROOT / "Makefile").read_text()).group(), wanted  # type: ignore[union-attr]


def packages() -> list[str]:
    joined = filled(sections()["post"]).replace("\\\n", " ")
    found = [word for words in re.findall(r"apt-get install (.*)", joined) for word in words.split()]
    return [word for word in found if not word.startswith("-")]


def test_what_drawing_needs_is_installed() -> None:
    needed = {name for names in re.findall(r"apt-get install ([\w\d -]+)`", PACKAGES) for name in names.split()}
    assert len(needed) == 3
    assert needed <= set(packages())


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="needs apt")
def test_every_debian_package_exists() -> None:
    if not subprocess.run(["apt-cache", "search", "^bash$"], capture_output=True, text=True).stdout:
        pytest.skip("apt knows no packages: apt-get update")
    assert len(packages()) > 5
    for name in packages():
        shown = subprocess.run(["apt-cache", "show", name], capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr


@pytest.mark.skipif(shutil.which("apptainer") is None, reason="needs Apptainer")
@pytest.mark.long
def test_the_image_builds_and_trains(tmp_path: Path) -> None:
    image = tmp_path / "medley.sif"
    subprocess.run(["apptainer", "build", str(image), str(RECIPE)], cwd=ROOT, check=True)
    words = ["train", *NAMED, f"setup.save_dir={tmp_path / 'run'}"]
    subprocess.run(["apptainer", "run", "--bind", str(tmp_path), str(image), *words], cwd=tmp_path, check=True)
    assert is_finished(tmp_path / "run")


@pytest.mark.long
def test_a_launched_run_uses_the_container_s_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for `apptainer exec --nv medley.sif`, whose python3 is known to it alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/of/the/machine/outside")
    inside = tmp_path / "container"
    inside.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3 $4" = "exec --nv medley.sif python3" ] || exit 9\n'
        f'shift 4\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n'
    )
    inside.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert main(["launch", "resources.container=container exec --nv medley.sif", "retries=0", *NAMED]) == 0
    script = (tmp_path / "runs/point/tiny/seed_1/run.sh").read_text()
    assert "exec container exec --nv medley.sif python3 -u -m medley train" in script
    assert "PYTHONPATH" not in script  # what the launcher imports is not what the container has

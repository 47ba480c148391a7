"""What `medley tune` is told, and what it refuses before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from medley.cli import main
from medley.config.load import expand_sweeps, load_config
from medley.errors import ConfigError
from medley.tuning.words import read
from tests.tuning.stand_in import RATE, WORDS

pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")


def test_words_are_told_apart() -> None:
    more = ["agent.trunk=shared,disjoint", "seeds=1,5", "jobs=4", "n_trials=7", "objective=return", "sampler=random"]
    asked = read([*WORDS, RATE, *more, "sampler.seed=3", "resources.cpus=2", "env.horizon=20", "setup.id=mine"])
    assert asked.search == [RATE, "agent.trunk=shared,disjoint"]
    assert asked.launch.words == [*WORDS, "env.horizon=20"]
    assert (asked.launch.seeds, asked.launch.jobs, asked.launch.resources.cpus) == ((1, 5), 4, 2)
    assert (asked.n_trials, asked.objective, asked.sampler, asked.name) == (7, "return", "random", "mine")
    assert asked.at_once == 2  # four runs at once, two seeds each


def test_the_folder_follows_from_what_is_searched() -> None:
    like = load_config(WORDS)
    one, same, other = (read([*WORDS, RATE, *more]) for more in ([], ["n_trials=99", "jobs=2"], ["objective=return"]))
    assert one.folder(like) == same.folder(like) != other.folder(like)
    assert one.folder(like).parent == Path("tune/point").resolve()
    assert read([*WORDS, RATE, "setup.id=mine"]).folder(like).name == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n_trials=3"], "what is to be tuned? For example"),
        ([RATE, "n_trails=3"], "does not know 'n_trails=3'. Did you mean 'n_trials'"),
        ([RATE, "n_trials=0"], "whole number"),
        ([RATE, "objective=sucess"], "Did you mean 'success'"),
        ([RATE, "sampler=cmaes"], "keeps pickles"),
        ([RATE, "sampler=tpee"], "Did you mean 'tpe'"),
        ([RATE, "sampler.startup=3"], "sampler.startup"),
        ([RATE, "pruning=maybe"], "true or false"),
        ([RATE, "pruning=true", "on=ray"], "pruning=true is for on=local"),
        ([RATE, "on=slrum"], "Did you mean 'slurm'"),
        ([RATE, "setup.seed=3"], "seeds= says which"),
        ([RATE, "setup.id=a/b"], "cannot be the name of a folder"),
        (["agent.trunk=shared,disjoin"], "Did you mean 'disjoint'"),
        (["agent.trunk=glob(s*)"], "choices, ranges and intervals can be searched"),
        (["agent.discount=interval(0.9,1.5)"], "must lie in [0, 1]"),
        (["agent.discount=interval(0.9,0.5)"], "low=0.9, high=0.5"),
        (["agent.discuont=interval(0.9,0.95)"], "there is no option agent.discuont"),
        (["agent.discount=interval(0.9,0.95)", "sampler=grid"], "sampler=grid needs choices or ranges"),
        (["agent.grad_clip=null,1.0", "sampler=grid"], "choices of one kind"),
        (["env=point,point-aux"], "all of them have the same"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_starts(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *WORDS, *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_intervals_are_not_for_train() -> None:
    with pytest.raises(ConfigError, match="`medley tune` searches in it"):
        expand_sweeps([RATE])


def test_a_dry_run_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *WORDS, RATE, "--dry-run"]) == 0
    assert "20 trials in tune/point/state_sac_" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", *WORDS, RATE]) == 2
    assert "pip install 'medley[tune]'" in capsys.readouterr().err

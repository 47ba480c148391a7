"""The words of `medley compare`, and the plan that is made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medley.comparison.methods import Method, read
from medley.comparison.plan import Plan, make_plan
from medley.errors import ConfigError
from medley.training.folder_name import default_path
from medley.training.run import Run


def test_methods_with_options_of_their_own() -> None:
    request = read(
        [
            "agents=state_sac,state_sac+agent.trunk=multi_head+agent.actor.log_std_bounds=[-10,2],"
            "state_sac experiment.protocol=metaworld+ agent.n_step=2,state_sac+setup.id=plain",
            "env=point",
        ]
    )
    assert request.methods == (
        Method("state_sac", ()),
        Method("state_sac", ("agent.trunk=multi_head", "agent.actor.log_std_bounds=[-10,2]")),
        Method("state_sac", ("experiment.protocol=metaworld+", "agent.n_step=2")),
        Method("state_sac", ("setup.id=plain",)),
    )
    assert [method.label for method in request.methods] == [
        "state_sac",
        "state_sac trunk=multi_head actor.log_std_bounds=[-10,2]",
        "state_sac experiment.protocol=metaworld+ n_step=2",
        "plain",
    ]
    assert request.words(request.methods[2], 3) == [
        "agent=state_sac",
        "env=point",
        "experiment.protocol=metaworld+",
        "agent.n_step=2",
        "setup.seed=3",
    ]


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (1, 2, 3)), ("1", (1,)), ("4,7", (4, 7)), ("[5]", (5,)), ("0,", (0,))]
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert read(["agents=state_sac", f"seeds={text}"]).seeds == seeds


def test_three_seeds_unless_told_otherwise() -> None:
    assert read(["agents=state_sac"]).seeds == (1, 2, 3)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["env=point"], "which methods?"),
        (["agents=", "env=point"], "which methods?"),
        (["agents=state_sac,,x"], "does not begin with the name of an agent"),
        (["agents=agent.trunk=shared"], "does not begin with the name of an agent"),
        (["agents=state_sac+setup.seed=4"], "cannot be an option of one method"),
        (["agents=state_sac", "seeds=0"], "a number of seeds"),
        (["agents=state_sac", "seeds=two"], "a number of seeds"),
        (["agents=state_sac", "seeds=4,4"], "every seed once"),
        (["agents=state_sac", "agent=state_sac"], "name the methods in agents="),
        (["agents=state_sac", "setup.seed=1"], "name the seeds in seeds="),
        (["agents=state_sac", "setup.id=x"], "give it to one method"),
        (["agents=state_sac", "setup.save_dir=x"], "a folder of its own"),
        (["agents=state_sac", "agent.trunk=shared,disjoint"], "all methods share one value"),
        (["agents=state_sac", "env"], "is not an option"),
    ],
)
def test_words_that_cannot_be_meant(words: list[str], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        read(words)


def _plan(folder: Path, *words: str) -> Plan:
    return make_plan(read(["env=point", f"setup.base_path={folder}", *words]))


def test_a_round_of_seeds_for_every_method_comes_before_the_next(tmp_path: Path) -> None:
    agents = "agents=state_sac,state_sac+agent.trunk=disjoint+setup.id=apart"
    runs = _plan(tmp_path, agents, "seeds=3").runs
    assert [run.path for run in runs] == [default_path(run.config) for run in runs]
    assert [str(run) for run in runs[:3]] == ["state_sac, seed 1", "apart, seed 1", "state_sac, seed 2"]
    runs = _plan(tmp_path, agents, "seeds=3", "experiment.seeds_together=2").runs
    assert [(run.method, run.seed) for run in runs] == [
        ("state_sac", 1),
        ("state_sac", 2),
        ("apart", 1),
        ("apart", 2),
        ("state_sac", 3),
        ("apart", 3),
    ]


@pytest.mark.parametrize(
    ("agents", "hint"),
    [
        ("state_sac,state_sca", "^state_sca: there is no agent=state_sca. Did you mean 'state_sac'"),
        ("state_sac,state_sac+agent.trnk=shared", "agent.trunk"),
        ("state_sac,state_sac+agent.trunk=shared", "differ in nothing that is learnt"),
        ("state_sac,state_sac+experiment.save_freq=7", "differ in nothing that is learnt"),
    ],
)
def test_a_method_that_cannot_be_is_refused_before_any_is_trained(agents: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=hint):
        _plan(tmp_path, f"agents={agents}")
    assert not list(tmp_path.iterdir())


def test_only_differences_of_the_protocol_are_warned_of(tmp_path: Path) -> None:
    own = "agents=state_sac,state_sac+agent.trunk=disjoint+agent.actor.hidden_dim=16+agent.alpha_per_task=true"
    assert _plan(tmp_path, own).differences == ()
    unfair = "state_sac+agent.reward_normalization=ema_std+replay_buffer.batch_size=192+experiment.updates=2"
    found = _plan(tmp_path, f"agents=state_sac,{unfair},state_sac+experiment.num_train_steps=80+setup.id=x").differences
    assert {d.option: d.values for d in found} == {
        "agent.reward_normalization": ("none", "ema_std", "none"),
        "experiment.num_train_steps": (4000, 4000, 80),
        "experiment.updates": (1, 2, 1),
        "replay_buffer.batch_size": (384, 192, 384),
    }


def test_what_stands_in_the_folders(tmp_path: Path) -> None:
    words = ("agents=state_sac", "seeds=4", "experiment.eval_freq=100")
    for run, status in zip(_plan(tmp_path, *words).runs, ("finished", "stopped", "failed"), strict=False):
        folder = Run(run.path)
        folder.create(run.config)
        folder.write_info(status=status, step=4000)
    assert [run.standing for run in _plan(tmp_path, *words).runs] == ["finished", "unfinished", "unfinished", "new"]
    longer = _plan(tmp_path, *words, "experiment.num_train_steps=5000").runs
    assert [run.standing for run in longer] == ["unfinished"] * 3 + ["new"]
    with pytest.raises(ConfigError, match="seed_2 is beyond 3,000 steps already"):
        _plan(tmp_path, *words, "experiment.num_train_steps=3000")
    shorter = _plan(tmp_path, words[0], words[2], "seeds=1", "experiment.num_train_steps=3000").runs
    assert shorter[0].standing == "finished"
    with pytest.raises(ConfigError, match=r"experiment\.eval_freq: 100 -> 50"):
        _plan(tmp_path, "agents=state_sac+setup.id=" + shorter[0].path.parent.name, "experiment.eval_freq=50")
    assert json.loads((shorter[0].path / "run.json").read_text())["status"] == "finished"

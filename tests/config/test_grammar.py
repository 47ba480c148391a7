"""The words of the command line: seed 002's own commands, every name there is, and every way to get one wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

import medley.config
from medley.agents.api import agent_kind
from medley.agents.sac_options import SACConfig
from medley.agents.task_label import task_input_kind
from medley.config.load import GROUPS, choices, expand_sweeps, from_dict, load_config, read_choice, to_dict
from medley.config.options import describe
from medley.config.schema import Config
from medley.envs.registry import env_kinds
from medley.errors import ConfigError

# Seed 002's three commands, as they stand in it.
PLAIN = """setup=metaworld agent=state_sac env=metaworld-mt10 agent.multitask.num_envs=10
agent.multitask.should_use_disentangled_alpha=True"""
MULTI_HEAD = f"{PLAIN} agent.multitask.should_use_multi_head_policy=True"
FULL = """setup=metaworld env=metaworld-mt10 agent=state_sac agent.multitask.num_envs=10
agent.multitask.should_use_disentangled_alpha=True agent.multitask.should_use_multi_head_policy=True
experiment.num_train_steps=2000000 setup.seed=1 replay_buffer.batch_size=1280"""


def load(text: str) -> tuple[Config, SACConfig]:
    config = load_config(text.split())
    assert isinstance(config.agent, SACConfig)
    return config, config.agent


@pytest.mark.parametrize(
    ("command", "trunk"),
    [(PLAIN, "shared"), (MULTI_HEAD, "multi_head"), (FULL, "multi_head")],
    ids=["plain", "multi_head", "full"],
)
def test_the_commands_of_seed_002(command: str, trunk: str) -> None:
    config, agent = load(command)
    assert (agent.name, agent.builder, agent.trunk) == ("state_sac", "sac", trunk)
    assert agent.alpha_per_task is True
    assert task_input_kind(agent) == "one_hot"  # a policy that is not told its task cannot learn ten of them
    assert (config.setup.setup, config.setup.seed, config.env.name) == ("metaworld", 1, "metaworld-mt10")
    assert config.experiment.num_train_steps == 2_000_000
    assert config.replay_buffer.batch_size == 1280
    assert config.replay_buffer.capacity == 1_000_000
    assert (agent.actor.hidden_dim, agent.actor.num_layers, agent.critic.hidden_dim) == (400, 3, 400)
    assert "success" in config.metrics.train


def test_flags_of_seed_002_say_what_medleys_words_say() -> None:
    flag = "agent.multitask.should_use_"
    for words, trunk, task_input in (
        (f"{flag}disjoint_policy=True {flag}multi_head_policy=True", "disjoint", "none"),
        (f"{flag}disjoint_policy=True", "disjoint", "none"),
        (f"{flag}multi_head_policy=False", "shared", "one_hot"),
        (f"{flag}task_encoder=True", "shared", "encoder"),
        (f"{flag}task_encoder=True agent.encoder.type_to_select=film", "film", "encoder"),
        (f"{flag}task_encoder=True agent.encoder.type_to_select=moe", "care", "encoder"),
        ("agent.multitask.actor_cfg.moe_cfg.should_use=True", "soft_modules", "one_hot"),
        (f"{flag}task_encoder=True agent.encoder.type_to_select=identity", "shared", "encoder"),
        ("agent.trunk=multi_head agent.task_input=encoder", "multi_head", "encoder"),
    ):
        agent = load(f"env=point {words}")[1]
        assert (agent.trunk, task_input_kind(agent)) == (trunk, task_input), words
    mixture = "agent.encoder.moe.num_experts=4 agent.encoder.moe.task_id_to_encoder_id_cfg.mode=gate"
    care = load(f"env=point agent.encoder.type_to_select=moe {mixture}")[1].care
    assert (care.experts, care.mode) == (4, "gate")
    # what they leave open stays as medley's own words have it
    care = load("env=point agent=care agent.encoder.type_to_select=moe agent.care.experts=4 agent.care.mode=gate")[
        1
    ].care
    assert (care.experts, care.mode) == (4, "gate")
    modules = "agent.multitask.actor_cfg.moe_cfg.should_use=True agent.soft_modules.modules=3"
    assert load(f"env=point agent=soft_modules {modules}")[1].soft_modules.modules == 3
    experts = "agent.multitask.actor_cfg.moe_cfg.should_use=True agent.multitask.actor_cfg.moe_cfg.num_experts=5"
    assert load(f"env=point {experts}")[1].soft_modules.modules == 5
    assert load(f"env=metaworld-quick {flag}disentangled_alpha=False")[1].alpha_per_task is False
    assert load("env=metaworld-quick")[1].alpha_per_task is True
    assert load("env=point")[1].alpha_per_task is False


def yaml_names(group: str) -> list[str]:
    folder = Path(medley.config.__file__).parent / group
    return sorted(p.stem for p in folder.glob("*.yaml"))


def test_every_name_is_listed() -> None:
    for group in GROUPS:
        assert choices(group) == yaml_names(group), group
        assert choices(group)


def _suite_is_long(name: str) -> Any:
    """dm_control has a file for every task, all alike: two of them will do."""
    few = ("dmc-multi", "dmc-walker-walk", "dmc-ball_in_cup-catch")
    return pytest.param(name, marks=pytest.mark.long) if name.startswith("dmc-") and name not in few else name


@pytest.mark.parametrize("name", yaml_names("agent"))
def test_every_agent_composes(name: str) -> None:
    world = "point-aux" if agent_kind(read_choice("agent", name)["builder"]).has_intentions else "point"
    more = ["agent.expert.path=demos.npz"] if name in ("bc", "mtbc") else []
    assert load_config([f"env={world}", f"agent={name}", *more]).agent.name == name


@pytest.mark.parametrize("name", [_suite_is_long(name) for name in yaml_names("env")])
def test_every_env_composes(name: str) -> None:
    yaml = read_choice("env", name)
    config = load_config([f"env={name}", *(["env.tasks=[reach,push]"] if name == "metaworld" else [])])
    assert config.env.name == yaml["name"] == name
    # dm_control's run folders are named as in its users' papers: `walker_walk` for dmc-walker-walk.
    one_task = name.startswith("dmc-") and name != "dmc-multi"
    assert config.env.folder == (name.removeprefix("dmc-").replace("-", "_") if one_task else None)
    assert config.setup.setup == yaml["setup"]  # the env brings the setup that suits it
    assert yaml["name"] in str(config.env)


@pytest.mark.parametrize("name", yaml_names("setup"))
def test_every_setup_selects_its_parts(name: str) -> None:
    config = load_config(["env=point", f"setup={name}"])
    assert isinstance(config.agent, SACConfig)
    assert config.setup.setup == name
    assert config.metrics.train == read_choice("metrics", name)["train"]
    hipbmdp = name == "hipbmdp"
    assert ("success" not in config.metrics.eval) == (name in ("hipbmdp", "dmc", "gym"))
    assert (config.agent.optimizers.alpha.beta1 == 0.5) == hipbmdp
    width = {"hipbmdp": 1024, "metaworld": 400, "point": 64, "quick": 256, "gym": 256, "dmc": 1024}[name]
    assert config.agent.actor.hidden_dim == config.agent.critic.hidden_dim == width
    steps = {"hipbmdp": 10**6, "metaworld": 2 * 10**6, "point": 4000, "quick": 50_000, "gym": 10**5, "dmc": 10**6}[name]
    assert config.experiment.num_train_steps == steps


def test_each_part_of_a_setup_can_be_chosen_on_its_own() -> None:
    plain, mixed = load("env=point"), load("env=point agent/optimizers=hipbmdp metrics=gym")
    assert mixed[0].setup.setup == "point"
    assert mixed[1].optimizers.alpha.lr == 1e-4
    assert mixed[1].optimizers.alpha.beta1 == 0.5
    assert mixed[1].actor == plain[1].actor
    assert "success" in plain[0].metrics.train
    assert "success" not in mixed[0].metrics.train
    assert load("env=point agent/components=hipbmdp")[1].actor.hidden_dim == 1024
    assert load("env=point experiment=gym")[0].experiment.num_train_steps == 100_000
    # Single options win over all files, wherever they stand on the line.
    for words in ("agent.actor.hidden_dim=7 env=point", "env=point agent.actor.hidden_dim=7 agent/components=hipbmdp"):
        assert load(words)[1].actor.hidden_dim == 7


# ---- what does not exist


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("env=pont", "there is no env=pont. Did you mean 'point'"),
        ("setup=metawrld", "there is no setup=metawrld. Did you mean 'metaworld'"),
        ("agent=state_sak", "there is no agent=state_sak. Did you mean 'state_sac'"),
        ("agent/optimizers=pint", "there is no agent/optimizers=pint. Did you mean 'point'"),
        ("agent/components=hipbdmp", "Did you mean 'hipbmdp'"),
        ("metrics=gim", "Did you mean 'gym'"),
        ("env=point agent.truk=shared", "there is no option agent.truk. Did you mean 'agent.trunk'"),
        ("env=point agent.actor.hiden_dim=3", "there is no option agent.actor.hiden_dim. Did you mean 'agent.actor.hi"),
        ("env=point experiment.num_train_step=3", "Did you mean 'experiment.num_train_steps'"),
        ("env=point +agent.foo=3", "there is no option agent.foo"),
        ("env=point agnt.trunk=shared", "there is no option agnt"),
        ("env=point env.ids=[a]", "there is no option env.ids"),  # another env's option
        ("env=point agent.trunk=multihead", "agent.trunk='multihead' does not exist. Did you mean 'multi_head'"),
        ("env=point agent.gradients=meen", "Did you mean 'mean'"),
        ("env=point agent.task_input=onehot", "Did you mean 'one_hot'"),
        ("env=point agent.builder=sacc", "there is no agent builder 'sacc'. Did you mean 'sac'"),
        ("env=point env.builder=pint", "there is no env builder 'pint'. Did you mean 'point'"),
        ("env=point experiment.protocol=mtr1", "Did you mean 'mtrl'"),
        ("env=point replay_buffer.sampling=unifrom", "Did you mean 'uniform'"),
        ("env=point logger.console=line", "Did you mean 'lines'"),
        ("env=point setup.device=gpu", "Did you mean 'cpu'"),
        ("env=metaworld env.tasks=[reech]", "Did you mean 'reach"),
        ("env=gym env.ids=[Pendulum-v9]", "Pendulum-v1"),
    ],
)
def test_unknown_names_get_the_closest_one(words: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config(words.split())


@pytest.mark.parametrize(
    "word",
    [
        "experiment.num_train_steps=abc",
        "setup.seed=1.5",
        "agent.alpha_per_task=perhaps",
        "agent.actor=3",
        "agent.actor.log_std_bounds=wide",
        "env.slots_per_task=null",
        "agent.discount=[1]",
    ],
)
def test_wrong_types_name_the_option(word: str) -> None:
    with pytest.raises(ConfigError, match=word.split("=")[0]):
        load_config(["env=point", word])


@pytest.mark.parametrize("word", ["agent", "~agent.trunk=1", "agent.trunk", "=3", "agent.trunk=[", ""])
def test_words_that_are_no_options(word: str) -> None:
    with pytest.raises(ConfigError):
        load_config(["env=point", word])


# ---- what does not fit together


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("agent.multitask.num_envs=10", "but the env has 3 tasks"),
        ("env.num_envs=10", "has 3 tasks"),
        (
            "agent.multitask.should_use_disjoint_policy=True agent.multitask.should_use_multi_head_policy=False",
            "needs should_use_multi_head_policy",
        ),
        ("agent=care agent.multitask.should_use_multi_head_policy=True", "different networks (care, multi_head)"),
        ("agent=brc agent.multitask.should_use_multi_head_policy=True", "different networks (bronet, multi_head)"),
        (
            "agent.encoder.type_to_select=moe agent.multitask.should_use_multi_head_policy=True",
            "agent.multitask.should_use_multi_head_policy=True and agent.encoder.type_to_select=moe ask for different",
        ),
        ("agent.multitask.actor_cfg.moe_cfg.should_use=True agent.encoder.type_to_select=film", "(soft_modules, film)"),
        ("agent.multitask.actor_cfg.moe_cfg.mode=bogus", "it is soft_modularization"),
        ("agent.builder.discount=0.9", "there is no option agent.builder.discount. Did you mean 'agent.discount'"),
        ("env.builder.make_kwargs.x=1", "there is no option env.builder.make_kwargs.x"),
        ("agent.task_input=embedding agent.multitask.should_use_task_encoder=True", "different labels of tasks"),
        ("agent.encoder.moe.num_experts=4", "needs agent.encoder.type_to_select=moe"),
        ("replay_buffer.batch_size=128", "use 126 or 129"),
        ("replay_buffer.batch_size=2", "use 3 or 6"),
        ("replay_buffer.capacity=2", "too small"),
        ("agent.n_step=5 replay_buffer.capacity=12", "too small"),
        ("agent.n_step=0", "agent.n_step=0"),
        ("agent.discount=1.1", "agent.discount"),
        ("agent.discount=nan", "agent.discount"),
        ("agent.critic_tau=0", "agent.critic_tau"),
        ("agent.init_temperature=0", "agent.init_temperature"),
        ("agent.init_temperature=nan", "agent.init_temperature"),
        ("agent.grad_clip=0", "null turns clipping off"),
        ("agent.max_value=-1", "0 bounds nothing"),
        ("agent.optimizers.critic.lr=-1", "agent.optimizers.critic.lr"),
        ("agent.optimizers.alpha.lr=nan", "agent.optimizers.alpha.lr"),
        ("agent.actor.log_std_bounds=[2,-20]", "the smaller one first"),
        ("agent.actor.log_std_bounds=[1]", "two numbers"),
        ("agent.actor.hidden_dim=0", "agent.actor.hidden_dim"),
        ("agent.multitask.task_encoder_cfg.embedding_dim=0", "embedding_dim"),
        ("agent.actor_update_freq=0", "agent.actor_update_freq"),
        ("setup.seed=-1", "setup.seed"),
        ("setup.threads=0", "setup.threads"),
        ("env.slots_per_task=0", "env.slots_per_task"),
        ("env.horizon=0", "env.horizon"),
        ("env.num_tasks=17", "between 1 and 16"),
        ("experiment.num_train_steps=0", "experiment.num_train_steps"),
        ("experiment.num_eval_episodes=0", "experiment.num_eval_episodes"),
        ("experiment.max_minutes=0", "experiment.max_minutes"),
        ("experiment.save.model.retain_last_n=0", "retain_last_n"),
        ("experiment.max_minutes=nan", "experiment.max_minutes=nan must be a finite number"),
        ("experiment.save_minutes=-1", "experiment.save_minutes"),
        ("agent.reward_scale=inf", "agent.reward_scale=inf must be a finite number"),
        ("agent.target_entropy=nan", "agent.target_entropy=nan"),
        ("agent.updates_per_step=inf", "agent.updates_per_step=inf"),
        ("agent.actor.log_std_bounds=[nan,2]", "agent.actor.log_std_bounds=nan"),
        ("agent.optimizers.actor.beta1=1", "agent.optimizers.actor: beta1"),
        ("agent.optimizers.critic.eps=0", "agent.optimizers.critic: beta1 and beta2 must lie in [0, 1), eps above 0"),
        ("agent.gradnorm.lr=-1", "agent.gradnorm.lr"),
        ("agent.cagrad.steps=0", "agent.cagrad.steps"),
        ("setup.seed=9223372036854775808", "below 2**63"),
        ("setup.device=cuda:x", "setup.device='cuda:x'"),
    ],
)
def test_impossible_combinations_are_refused(words: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config(["env=point", *words.split()])


# ---- what is filled in


def test_defaults_that_follow_from_others() -> None:
    config = load_config(["env=point", "env.num_tasks=5", "env.slots_per_task=4", "experiment.collect_steps=3"])
    assert config.replay_buffer.batch_size == 5 * 128
    assert config.replay_buffer.capacity == 5 * 100_000
    assert config.experiment.updates == 12  # one update per step of a task
    assert config.experiment.eval_freq == config.experiment.save_freq == 200
    assert config.experiment.protocol == "episodes"
    mt10 = load_config(["env=metaworld-mt10"]).experiment
    assert (mt10.protocol, mt10.num_eval_episodes, mt10.num_final_eval_episodes) == ("metaworld+", 50, 50)
    assert load_config(["env=metaworld-mt10", "experiment.protocol=mtrl"]).experiment.num_eval_episodes == 1


@pytest.mark.parametrize(
    "words",
    [
        FULL,
        "env=point agent.task_input=encoder setup.tags=[a,b] setup.description=hello",
        "env=gym env.ids=[Pendulum-v1,Pendulum-v1] env.kwargs={g:9.0}",
        "env=metaworld-quick agent.multitask.should_use_disjoint_policy=True",
    ],
    ids=["seed_002", "point", "gym", "quick"],
)
def test_a_resolved_config_goes_through_a_dict_unchanged(words: str) -> None:
    config = load_config(words.split())
    saved = to_dict(config)
    again = from_dict(saved)
    assert to_dict(again) == saved
    assert type(again.agent) is type(config.agent)
    assert to_dict(from_dict(saved, ["setup.seed=7"])) == {**saved, "setup": {**saved["setup"], "seed": 7}}
    with pytest.raises(ConfigError, match="cannot be chosen anew"):
        from_dict(saved, ["agent=state_sac"])
    with pytest.raises(ConfigError, match="no option setup\\.sed"):
        from_dict(saved, ["setup.sed=7"])


def test_every_option_has_a_meaning() -> None:
    names = []
    named = {
        "metaworld": "metaworld-mt10",
        "dmc": "dmc-multi",
        "hipbmdp": "hipbmdp-finger-size",
        "panda": "panda-reach",
    }
    for env in env_kinds():
        words = [f"env={named.get(env, env)}"]
        for name, _, meaning in describe(type(load_config(words))):
            assert meaning.strip(), f"{name} has no meaning"
            names.append(name)
    assert len(set(names)) > 80
    assert {"agent.actor.hidden_dim", "env.tasks", "env.num_tasks", "env.ids", "setup.seed"} <= set(names)


def test_sweeps_expand_to_every_combination() -> None:
    words = ["env=point", "setup.seed=1,2,3", "agent.trunk=shared,disjoint", "env.num_tasks=2"]
    runs = expand_sweeps(words)
    assert len(runs) == 6
    assert runs[0] == ["env=point", "setup.seed=1", "agent.trunk=shared", "env.num_tasks=2"]
    assert {(r[1], r[2]) for r in runs} == {
        (f"setup.seed={s}", f"agent.trunk={t}") for s in (1, 2, 3) for t in ("shared", "disjoint")
    }
    for run in runs:
        load_config(run)
    assert [r[0] for r in expand_sweeps(["setup.seed=range(1,4)"])] == [f"setup.seed={i}" for i in (1, 2, 3)]
    assert expand_sweeps(["env.tasks=[reach,push]"]) == [["env.tasks=[reach,push]"]]  # a list is one value
    assert expand_sweeps([]) == [[]]


def test_hydra_is_left_as_it_was() -> None:
    load_config(["env=point"])
    with pytest.raises(ConfigError):
        load_config(["env=pont"])
    assert not GlobalHydra.instance().is_initialized()

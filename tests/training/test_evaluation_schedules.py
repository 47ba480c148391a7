"""Evaluations with noise and with a forced order of intentions, and how every intention sees every episode."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.cli import main
from medley.config.load import load_config
from medley.envs.api import stream_seed
from medley.envs.point import PointEnv
from medley.envs.point_aux import PointAuxEnv
from medley.errors import ConfigError
from medley.training.eval_acting import EpisodeNoise, ForcedSchedule
from medley.training.evaluate import evaluate
from medley.training.evaluator import EpisodeScore, Evaluator, Interrupted, matrix
from medley.training.experiment import Experiment
from medley.training.protocols import PROTOCOLS
from medley.training.run import Run

SMALL = [
    *("agent.actor.hidden_dim=8", "agent.critic.hidden_dim=8", "setup.device=cpu", "setup.threads=1", "env.horizon=12"),
    *("experiment.num_train_steps=60", "experiment.init_steps=20", "experiment.eval_freq=0", "logger.console=none"),
    *(
        "experiment.num_eval_episodes=4",
        "experiment.eval_slots_per_task=3",
        "experiment.save_video=false",
        "experiment.save_report=false",
    ),
    *("replay_buffer.batch_size=12", "logger.use_tb=false", "experiment.eval_at_start=false"),
]
EPISODES, HORIZON = 5, 12
NAMES = ("east", "north", "west")


def _train(folder: Path, *words: str) -> Path:
    config = load_config([*SMALL, *words])
    run = Run(folder)
    run.create(config)
    assert Experiment(config, run).train() == "finished"
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _train(tmp_path_factory.mktemp("aux") / "run", "env=point-aux", "agent=sacx", "agent.scheduler.period=5")


@pytest.fixture
def with_intentions(trained: Path, tmp_path: Path) -> Path:
    """A copy, since evaluations leave files."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _train(tmp_path_factory.mktemp("plain") / "run", "env=point")


def _aux(slots: int = 2, horizon: int = HORIZON) -> PointAuxEnv:
    return PointAuxEnv(3, slots, horizon, stream_seed(1, True), each=True)


def _to_places(obs: Tensor, noise: Tensor | None) -> Tensor:
    """The policy of intention k flies to place k."""
    places = torch.from_numpy(PointEnv(3)._goals).float()
    drawn = 0.0 if noise is None else noise
    return torch.clamp(10 * (places[:, None] - obs[..., :2]) + drawn, -1, 1)


# ---- noise


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_stopped_evaluation_with_noise_ends_with_the_same_scores(slots: int) -> None:
    def act(obs: Tensor, noise: Tensor | None) -> Tensor:
        assert noise is not None
        return 0.3 * noise  # returns are often 0, so the actions themselves must tell

    def run(done: list[EpisodeScore], stop_after: int | None) -> tuple[list[EpisodeScore], dict[Any, bytes]]:
        """Actions of whole episodes as well as scores."""
        env = _aux(slots)
        evaluator, seen, new = Evaluator(env, PROTOCOLS["episodes"]), {}, list[EpisodeScore]()
        evaluator.stochastic = True
        taken: list[list[bytes]] = [[] for _ in range(env.num_envs)]
        step, steps = env.step, [0]

        def watched(actions: Any, active: Any = None) -> Any:
            for k in np.flatnonzero(active):
                taken[k].append(actions[k].tobytes())
            return step(actions, active)

        def ended(score: EpisodeScore) -> None:
            slot = NAMES.index(score.task) * slots + score.episode % slots
            seen[score.task, score.episode], taken[slot] = b"".join(taken[slot]), []
            new.append(score)

        def stop() -> bool:
            steps[0] += 1
            return stop_after is not None and steps[0] > stop_after

        env.step = watched  # type: ignore[method-assign]
        try:
            return evaluator.run(EPISODES, act, done, ended, stop), seen
        except Interrupted:
            return done + new, seen

    whole, actions = run([], None)
    assert len(set(actions.values())) == 3 * EPISODES  # every episode has noise of its own
    some, first = run([], HORIZON + 3)  # in the middle of the second episode of every slot
    assert 0 < len(some) < len(whole)
    final, second = run(some, None)
    assert final == whole
    assert {**first, **second} == actions


def test_noise_belongs_to_the_task_and_the_episode() -> None:
    def noise(slots: int, slot: int, episode: int) -> bytes:
        env = _aux(slots)
        stream = EpisodeNoise(env)
        stream.begin(slot, episode)
        active = np.zeros(env.num_envs, dtype=np.bool_)
        active[slot] = True
        return b"".join(stream.draw(active).reshape(env.num_envs, -1)[slot].tobytes() for _ in range(3))

    assert noise(2, 0, 1) == noise(5, 1, 1)  # wherever it runs
    assert len({noise(2, slot, episode) for slot in (0, 2, 4) for episode in range(3)}) == 9
    env = _aux()
    drawn = EpisodeNoise(env)
    drawn.begin(0, 0)
    many = np.stack([drawn.draw(np.arange(6) == 0)[0, 0] for _ in range(4000)])
    assert abs(many.mean()) < 0.05
    assert abs(many.std() - 1) < 0.05


def test_without_noise_nothing_is_drawn(with_intentions: Path) -> None:
    plain = evaluate(with_intentions, say=lambda text: None)[1]
    noisy = evaluate(with_intentions, ["experiment.eval_explore=stochastic"], say=lambda text: None)[1]
    assert "explore" not in plain
    assert noisy["explore"] == "stochastic"
    evaluator = Evaluator(_aux(), PROTOCOLS["episodes"])

    def act(obs: Tensor, noise: Tensor | None) -> Tensor:
        assert noise is None
        return _to_places(obs, noise)

    evaluator.run(2, act)


# ---- the whole command, stopped and started again


class Killed(Exception):
    pass


def _killed_after(count: int) -> Callable[[EpisodeScore, int], None]:
    ended = [0]

    def after(score: EpisodeScore, left: int) -> None:
        ended[0] += 1
        if ended[0] == count:
            raise Killed

    return after


WAYS = {
    "stochastic": (["experiment.eval_explore=stochastic"], "evaluation_episodes_60_stochastic.json"),
    "scheduled": (["experiment.eval_schedule=[north,west]"], "evaluation_episodes_60_north-west_5.json"),
    "both": (
        ["experiment.eval_explore=stochastic", "experiment.eval_schedule=[west,east]", "agent.scheduler.period=4"],
        "evaluation_episodes_60_stochastic_west-east_4.json",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_stopped_and_continued_equals_uninterrupted(way: str, with_intentions: Path, tmp_path: Path) -> None:
    words, name = WAYS[way]
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        shutil.copytree(with_intentions, folder)
    out, result = evaluate(a, words, say=lambda text: None)
    assert out.name == name
    assert result["complete"]
    for count in (4, 7):  # even between two episodes that ended in one step
        with pytest.raises(Killed):
            evaluate(b, words, on_episode=_killed_after(count), say=lambda text: None)
        assert not json.loads((b / name).read_text())["complete"]
    with (b / "episodes.jsonl").open("a") as f:
        f.write('{"kind": "eval", "st')  # killed while writing
    said: list[str] = []
    assert evaluate(b, words, say=said.append)[1] == result
    assert said[0].startswith("Going on after")
    assert (b / name).read_bytes() == out.read_bytes()
    lines = [
        sorted(
            json.dumps({k: v for k, v in json.loads(line).items() if k != "time"})
            for line in (folder / "episodes.jsonl").read_text().splitlines()
        )
        for folder in (a, b)
    ]
    assert lines[0] == lines[1]
    assert sum(name in line for line in lines[0]) == 12


def test_a_finished_evaluation_acts_no_more(with_intentions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["experiment.eval_schedule=[north]"]
    out, result = evaluate(with_intentions, words, say=lambda text: None)
    before = out.read_bytes()
    monkeypatch.setattr(Evaluator, "_actions", None)
    said: list[str] = []
    assert evaluate(with_intentions, words, say=said.append)[1] == result
    assert out.read_bytes() == before
    assert "All 12 episodes" in said[0]


# ---- forced schedules


def test_a_forced_schedule_says_who_acts() -> None:
    schedule = ForcedSchedule((1, 2, 0), 4)
    assert schedule.chosen(12) == [1, 2, 0]
    assert schedule.chosen(18) == [1, 2, 0, 0, 0]  # the last goes on
    assert schedule.chosen(5) == [1, 2]
    env = _aux(2, horizon=18)
    evaluator = Evaluator(env, PROTOCOLS["episodes"])
    evaluator.schedule = schedule
    done: list[Any] = []
    step = env.step

    def watched(actions: Any, active: Any = None) -> Any:
        done.append(actions.copy())
        return step(actions, active)

    def who(obs: Tensor, noise: Tensor | None) -> Tensor:
        return torch.arange(3.0)[:, None, None].expand(3, obs.shape[1], 2) / 10

    env.step = watched  # type: ignore[method-assign]
    evaluator.run(4, who)
    assert len(done) == 36
    expected = [1] * 4 + [2] * 4 + [0] * 10
    for i, actions in enumerate(done):  # in every slot, whatever its task, and anew in the second episode
        assert np.allclose(actions, expected[i % 18] / 10)


def test_schedules_of_one_intention_equal_that_intention_by_itself() -> None:
    plain = Evaluator(_aux(), PROTOCOLS["episodes"])
    by_itself = [s for s in plain.run(4, _to_places) if s.task == "north"]
    plain.schedule = ForcedSchedule((1,), 3)
    forced = [s for s in plain.run(4, _to_places) if s.task == "north"]
    assert forced == by_itself


# ---- the matrix


def test_the_matrix_says_how_every_intention_sees_every_episode() -> None:
    n, horizon = 4, 45
    evaluator = Evaluator(_aux(2, horizon), PROTOCOLS["episodes"])
    scores = evaluator.run(n, _to_places)
    seen = {key: np.array(value) for key, value in matrix(scores, NAMES).items()}
    assert seen["returns"].shape == seen["successes"].shape == (3, 3 * n)
    for executed in range(3):  # who goes to one place is there, and nowhere else
        columns = seen["successes"][:, executed * n : (executed + 1) * n]
        assert columns[executed].all()
        assert not np.delete(columns, executed, axis=0).any()
    own = np.concatenate([seen["returns"][k, k * n : (k + 1) * n] for k in range(3)])
    assert own.tolist() == [s.reward for s in scores]  # on the diagonal stands what an episode is scored by

    evaluator.schedule = ForcedSchedule((1, 2), 20)
    through = np.array(matrix(evaluator.run(n, _to_places), NAMES)["successes"])
    assert through.shape == (3, 3 * n)
    assert through[1].all()  # success at any step: it was in the north before it went on
    assert through[2].all()
    assert not through[0].any()


def test_the_matrix_is_in_the_file_and_on_the_console(
    with_intentions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(with_intentions), "experiment.num_eval_episodes=2"]) == 0
    text = capsys.readouterr().out
    assert "carrying out north: east " in text
    result = json.loads((with_intentions / "evaluation_episodes_60.json").read_text())
    assert result["tasks"] == list(NAMES)
    for key, one in (("returns", "returns"), ("successes", "successes")):
        assert np.array(result["matrix"][key]).shape == (3, 6)
        assert np.array(result["matrix"][key]).T.tolist() == [e[one] for e in result["episodes"]]
    assert main(["evaluate", str(with_intentions), "experiment.eval_schedule=[north,east]"]) == 0
    assert "carrying out north east: east " in capsys.readouterr().out


def test_ordinary_envs_have_no_matrix(ordinary: Path) -> None:
    out, result = evaluate(ordinary, ["experiment.eval_explore=stochastic"], say=lambda text: None)
    assert out.name == "evaluation_episodes_60_stochastic.json"
    assert "matrix" not in result
    assert set(result["episodes"][0]) == {"task", "episode", "success", "length", "return"}
    plain = evaluate(ordinary, say=lambda text: None)[1]
    assert plain["return"] != result["return"]


# ---- while training, and what is refused


def test_evaluations_while_training_act_the_same_way(tmp_path: Path) -> None:
    words = ["experiment.eval_explore=stochastic", "experiment.eval_schedule=[north,east]", "agent.scheduler.period=5"]
    path = _train(tmp_path / "run", "env=point-aux", "agent=sacx", *words)
    made = json.loads((path / "results.json").read_text())["evaluations"][-1]
    again = evaluate(path, say=lambda text: None)[1]
    assert made["episodes"] == again["episodes"]
    rows = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
    assert {tuple(row["schedule"]) for row in rows if row["kind"] == "eval"} == {("north", "east", "east")}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("experiment.eval_schedule=[north,nort]", r"no intention 'nort'. Known: east, north, west"),
        ("experiment.eval_explore=noisy", r"'noisy' does not exist.*deterministic, stochastic"),
        ("experiment.eval_schedule=north", r"eval_schedule"),
        ("agent.scheduler.period=0", r"at least 1"),
        ("agent.discount=0.5", r"an evaluation takes .*experiment.eval_explore.*experiment.eval_schedule"),
    ],
)
def test_what_is_refused(word: str, says: str, with_intentions: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        evaluate(with_intentions, [word], say=lambda text: None)


def test_schedules_need_intentions(ordinary: Path) -> None:
    with pytest.raises(ConfigError, match=r"for agents with intentions"):
        evaluate(ordinary, ["experiment.eval_schedule=[east]"], say=lambda text: None)
    with pytest.raises(ConfigError, match=r"for agents with intentions"):
        Experiment(load_config([*SMALL, "env=point", "experiment.eval_schedule=[east]"]), Run(ordinary))


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    text = capsys.readouterr().out
    assert "experiment.eval_explore=stochastic" in text
    assert "experiment.eval_schedule=[" in text

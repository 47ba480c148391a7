"""SAC+AE's command line: every option arrives, and mistakes are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medley.config.load import load_config
from medley.errors import MedleyError
from tests.compat.commands import printed_words
from tests.compat.sac_ae import FOLDER, OPTIONS, OTHERS, SEED, flat_options, run_train, words_of


def test_defaults_are_the_references() -> None:
    config = load_config(words_of())
    flat = flat_options(config)
    for name, (default, _, options) in OPTIONS.items():
        for option in options:
            assert flat[option] == default, (name, option)
    assert (config.env.folder, config.agent.name) == ("cheetah_run", "sac_ae")
    assert flat["agent.actor.log_std_bounds"] == [-10, 2]
    assert flat["setup.save_dir"] == "./save"
    assert (config.experiment.save_video, config.logger.use_tb) == (False, False)
    assert config.experiment.save.buffer.should_save
    assert (config.experiment.eval_at_start, config.experiment.updates, config.experiment.collect_steps) == (True, 1, 1)
    assert flat["agent.burst"]


def test_every_option_arrives() -> None:
    words = [word for name, (_, other, _) in OPTIONS.items() for word in (f"--{name}", str(other))]
    words += ["--actor_log_std_min", "-5", "--actor_log_std_max", "1.5", "--domain_name", "ball_in_cup"]
    words += ["--task_name", "catch", "--work_dir", "a b/it's, c", "--save_tb", "--save_video", "--save_model"]
    config = load_config(words_of(*words, "--save_buffer"))
    flat = flat_options(config)
    for name, (_, other, options) in OPTIONS.items():
        for option in options:
            assert flat[option] == other, (name, option)
    assert flat["agent.actor.log_std_bounds"] == [-5, 1.5]
    assert config.env.folder == "ball_in_cup_catch"
    assert config.setup.save_dir == "a b/it's, c"
    assert (config.experiment.save_video, config.logger.use_tb) == (True, True)
    assert (config.experiment.video.at_eval, config.experiment.video.size) == (True, [256, 256])
    assert (config.experiment.video.every, config.experiment.video.fps) == (1, 30)
    assert config.experiment.save.model.retain_last_n == -1


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_nothing_else(name: str) -> None:
    before, after = (
        dict(w.split("=", 1) for w in ws) for ws in (words_of(), words_of(f"--{name}", str(OPTIONS[name][1])))
    )
    assert {key for key in before | after if before.get(key) != after.get(key)} == set(OPTIONS[name][2])


def test_the_readme_says_what_each_is() -> None:
    text = (FOLDER / "README.md").read_text()
    for name in [*OPTIONS, *OTHERS]:
        assert f"`{name}`" in text, name
    for _, _, options in OPTIONS.values():
        for option in options:
            assert f"`{option}`" in text, option


def test_states_and_pixels_without_decoder() -> None:
    states = load_config(words_of("--encoder_type", "identity", "--hidden_dim", "64"))
    flat = flat_options(states)
    assert (states.agent.name, flat["env.observation"]) == ("state_sac", "states")
    assert flat["agent.actor.num_layers"] == flat["agent.critic.num_layers"] == 2
    assert flat["agent.actor.hidden_dim"] == flat["agent.critic.hidden_dim"] == 64
    assert (flat["agent.actor.log_std_bounding"], flat["agent.grad_clip"], flat["agent.burst"]) == ("tanh", None, True)
    assert (flat["agent.actor_update_freq"], flat["agent.init_temperature"]) == (2, 0.1)
    assert words_of("--encoder_type", "identity", "--decoder_type", "identity") == words_of(
        "--encoder_type", "identity"
    )
    plain = load_config(words_of("--decoder_type", "identity"))
    assert (plain.agent.name, flat_options(plain)["env.observation"]) == ("sac", "pixels")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--agent sac-ae", "--agent sac-ae does not exist. Did you mean 'sac_ae'"),
        ("--agent dreamer", "does not exist"),
        ("--encoder_type pixels", "Did you mean 'pixel'"),
        ("--decoder_type conv", "--decoder_type conv does not exist"),
        ("--encoder_type identity --decoder_type pixel", "has no picture"),
    ],
)
def test_names_that_do_not_exist(words: str, hint: str) -> None:
    with pytest.raises(MedleyError, match=re.escape(hint)):
        words_of(*words.split())


def test_unknown_options_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        words_of("--eval_freqs", "3")
    assert stopped.value.code == 2
    assert "Did you mean --eval_freq?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        words_of("--batch_size", "many")
    assert "invalid int value: 'many'" in capsys.readouterr().err


def test_bad_tasks_leave_no_folder(tmp_path: Path) -> None:
    done = run_train("--domain_name", "chetah", "--work_dir", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "dmc-cheetah-run" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_seeds_command_as_written() -> None:
    words = printed_words(run_train(*SEED, "--print-only", "setup.seed=7"))
    config = load_config(words)
    assert config.setup.save_dir == "./log"
    assert config.setup.seed == 7  # what comes last wins
    assert flat_options(config)["env.action_repeat"] == 4
    assert config.agent.name == "sac_ae"

"""Seed 001's command, options, console lines, folders, cluster scripts and notebook."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from medley.config.load import load_config
from medley.config.schema import Config
from medley.errors import MedleyError
from medley.training.run import flatten
from tests.compat.commands import COMPAT, ROOT, printed_words, start

FOLDER = COMPAT / "sac_ae"
SEED = [
    *("--domain_name", "cheetah", "--task_name", "run", "--encoder_type", "pixel", "--decoder_type", "pixel"),
    *("--action_repeat", "4", "--save_video", "--save_tb", "--work_dir", "./log", "--seed", "1"),
]
# As the seed shows them.
TRAIN = "| train | E: 1 | S: 1000 | D: 0.8 s | R: 0.0000 | BR: 0.0000 | ALOSS: 0.0000 | CLOSS: 0.0000 | RLOSS: 0.0000"
EVAL = "| eval | S: 0 | ER: 21.1676"
TESTBED = [
    *("cartpole swingup", "reacher easy", "cheetah run", "finger spin", "ball_in_cup catch"),
    *("walker walk", "walker stand", "walker run", "hopper stand", "hopper hop"),
]
# Every option with its default, another value, and where medley has it. The bounds of log sigma are one option.
OPTIONS: dict[str, tuple[Any, Any, list[str]]] = {
    "image_size": (84, 64, ["env.image_size"]),
    "action_repeat": (1, 8, ["env.action_repeat"]),
    "frame_stack": (3, 4, ["env.frame_stack"]),
    "replay_buffer_capacity": (1_000_000, 5000, ["replay_buffer.capacity"]),
    "init_steps": (1000, 77, ["experiment.init_steps"]),
    "num_train_steps": (1_000_000, 999, ["experiment.num_train_steps"]),
    "batch_size": (128, 32, ["replay_buffer.batch_size"]),
    "hidden_dim": (1024, 48, ["agent.actor.hidden_dim", "agent.critic.hidden_dim"]),
    "eval_freq": (10_000, 500, ["experiment.eval_freq"]),
    "num_eval_episodes": (10, 3, ["experiment.num_eval_episodes"]),
    "critic_lr": (1e-3, 2e-4, ["agent.optimizers.critic.lr"]),
    "critic_beta": (0.9, 0.8, ["agent.optimizers.critic.beta1"]),
    "critic_tau": (0.01, 0.02, ["agent.critic_tau"]),
    "critic_target_update_freq": (2, 3, ["agent.critic_target_update_freq"]),
    "actor_lr": (1e-3, 3e-4, ["agent.optimizers.actor.lr"]),
    "actor_beta": (0.9, 0.7, ["agent.optimizers.actor.beta1"]),
    "actor_update_freq": (2, 4, ["agent.actor_update_freq"]),
    "encoder_feature_dim": (50, 20, ["agent.pixels.feature_dim"]),
    "encoder_lr": (1e-3, 4e-4, ["agent.optimizers.encoder.lr"]),
    "encoder_tau": (0.05, 0.03, ["agent.pixels.tau"]),
    "decoder_lr": (1e-3, 5e-4, ["agent.optimizers.decoder.lr"]),
    "decoder_update_freq": (1, 5, ["agent.decoder.update_freq"]),
    "decoder_latent_lambda": (1e-6, 2e-6, ["agent.decoder.latent_lambda"]),
    "decoder_weight_lambda": (1e-7, 3e-7, ["agent.decoder.weight_lambda"]),
    "num_layers": (4, 2, ["agent.pixels.num_layers"]),
    "num_filters": (32, 8, ["agent.pixels.num_filters"]),
    "discount": (0.99, 0.9, ["agent.discount"]),
    "init_temperature": (0.1, 0.2, ["agent.init_temperature"]),
    "alpha_lr": (1e-4, 6e-4, ["agent.optimizers.alpha.lr"]),
    "alpha_beta": (0.5, 0.6, ["agent.optimizers.alpha.beta1"]),
    "seed": (1, 42, ["setup.seed"]),
}
OTHERS = ["domain_name", "task_name", "agent", "encoder_type", "decoder_type", "actor_log_std_min", "work_dir"]
OTHERS += ["actor_log_std_max", "save_tb", "save_model", "save_buffer", "save_video"]


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("sac_ae_train", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRAINER = _module()


def _words(*words: str) -> list[str]:
    made, remarks, print_only = TRAINER.translate([*words, "--print-only"])
    assert print_only
    assert not remarks
    return list(made)


def _flat(config: Config) -> dict[str, Any]:
    from medley.config.load import to_dict

    return flatten(to_dict(config))


def _train(*words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return start([sys.executable, str(FOLDER / "train.py"), *words], folder)


# ---- options


def test_defaults_are_the_references() -> None:
    config = load_config(_words())
    flat = _flat(config)
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
    config = load_config(_words(*words, "--save_buffer"))
    flat = _flat(config)
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
    before, after = (dict(w.split("=", 1) for w in ws) for ws in (_words(), _words(f"--{name}", str(OPTIONS[name][1]))))
    assert {key for key in before | after if before.get(key) != after.get(key)} == set(OPTIONS[name][2])


def test_the_readme_says_what_each_is() -> None:
    text = (FOLDER / "README.md").read_text()
    for name in [*OPTIONS, *OTHERS]:
        assert f"`{name}`" in text, name
    for _, _, options in OPTIONS.values():
        for option in options:
            assert f"`{option}`" in text, option


def test_states_and_pixels_without_decoder() -> None:
    states = load_config(_words("--encoder_type", "identity", "--hidden_dim", "64"))
    flat = _flat(states)
    assert (states.agent.name, flat["env.observation"]) == ("state_sac", "states")
    assert flat["agent.actor.num_layers"] == flat["agent.critic.num_layers"] == 2
    assert flat["agent.actor.hidden_dim"] == flat["agent.critic.hidden_dim"] == 64
    assert (flat["agent.actor.log_std_bounding"], flat["agent.grad_clip"], flat["agent.burst"]) == ("tanh", None, True)
    assert (flat["agent.actor_update_freq"], flat["agent.init_temperature"]) == (2, 0.1)
    assert _words("--encoder_type", "identity", "--decoder_type", "identity") == _words("--encoder_type", "identity")
    plain = load_config(_words("--decoder_type", "identity"))
    assert (plain.agent.name, _flat(plain)["env.observation"]) == ("sac", "pixels")


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
        _words(*words.split())


def test_unknown_options_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        _words("--eval_freqs", "3")
    assert stopped.value.code == 2
    assert "Did you mean --eval_freq?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _words("--batch_size", "many")
    assert "invalid int value: 'many'" in capsys.readouterr().err


def test_bad_tasks_leave_no_folder(tmp_path: Path) -> None:
    done = _train("--domain_name", "chetah", "--work_dir", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "dmc-cheetah-run" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_seeds_command_as_written() -> None:
    words = printed_words(_train(*SEED, "--print-only", "setup.seed=7"))
    config = load_config(words)
    assert config.setup.save_dir == "./log"
    assert config.setup.seed == 7  # what comes last wins
    assert _flat(config)["env.action_repeat"] == 4
    assert config.agent.name == "sac_ae"


# ---- a run

TINY = [
    *("--image_size", "20", "--num_layers", "2", "--num_filters", "4", "--encoder_feature_dim", "6"),
    *("--hidden_dim", "16", "--batch_size", "8", "--replay_buffer_capacity", "500"),
    *("--num_train_steps", "110", "--init_steps", "30", "--eval_freq", "40", "--num_eval_episodes", "1"),
    *("--action_repeat", "20", "env.render_profile=fast", "setup.device=cpu", "setup.threads=1"),
]
KEYS = {
    *("episode", "step", "duration", "episode_reward", "batch_reward", "actor_loss", "critic_loss", "ae_loss"),
    *("actor_entropy", "actor_target_entropy", "alpha_loss", "alpha_value", "env_step", "updates", "fps"),
}
EVAL_KEYS = {
    *("episode", "step", "episode_reward", "env_step", "updates", "duration"),
    *("episode_rewards", "episode_reward_std"),
}


def _pattern(example: str) -> str:
    """Any line like the example: as many decimals, single spaces, the same words."""
    made = ""
    for part in re.split(r"(\d+(?:\.\d+)?)", example):
        whole, dot, decimals = part.partition(".")
        number = dot and whole.isdigit()
        made += rf"-?\d+\.\d{{{len(decimals)}}}" if number else r"\d+" if part.isdigit() else re.escape(part)
    return made


def _log(run: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{kind}.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def pixel_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The seed's command in small."""
    run = tmp_path_factory.mktemp("sac_ae") / "log"
    done = _train(*SEED, *TINY, "--work_dir", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    return run, done


def test_console_lines_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, done = pixel_run
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    train = [line for line in lines if re.fullmatch(_pattern(TRAIN), line)]
    evaluations = [line for line in lines if re.fullmatch(_pattern(EVAL), line)]
    assert sorted(train + evaluations) == sorted(lines)
    # One line per episode of 50 steps; evaluations at the start, at multiples of eval_freq, and at the end.
    assert [line.split(" | ")[1:3] for line in train] == [["E: 1", "S: 50"], ["E: 2", "S: 100"]]
    assert [line.split(" | ")[1] for line in evaluations] == ["S: 0", "S: 40", "S: 80", "S: 110"]
    rows = _log(run, "train")
    assert len(rows) == len(train)
    for line, row in zip(train, rows, strict=True):
        assert line.endswith(f"| RLOSS: {row['ae_loss']:.4f}")
        assert row["ae_loss"] > 0
        assert f"| R: {row['episode_reward']:.4f} |" in line


def test_logs_and_files_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, _ = pixel_run
    for row in _log(run, "train"):
        assert row.keys() >= KEYS
        assert row["env_step"] == 20 * row["step"]
    evaluations = _log(run, "eval")
    for row in evaluations:
        assert row.keys() >= EVAL_KEYS
        assert row["episode_rewards"] == [row["episode_reward"]]
    assert [row["episode"] for row in evaluations] == [0, 0, 1, 2]
    assert list(run.glob("tb/events.out.tfevents.*"))
    assert list(run.glob("checkpoints/*/agent.safetensors"))
    assert json.loads((run / "args.json").read_text())["action_repeat"] == 20
    assert sorted(path.name for path in (run / "video").iterdir()) == ["0.mp4", "110.mp4", "40.mp4", "80.mp4"]


def test_videos_are_the_seeds(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    import imageio_ffmpeg

    about = next(imageio_ffmpeg.read_frames(str(pixel_run[0] / "video" / "40.mp4")))
    assert about["size"] == (256, 256)
    assert about["fps"] == 30
    assert about["duration"] == pytest.approx(50 / 30 + 0.8, abs=0.1)  # every step, and the last picture a while


def test_the_folder_can_be_gone_on_with(pixel_run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    run, _ = pixel_run
    before = (run / "args.json").read_text()
    again = _train(*SEED, *TINY, "--work_dir", str(run))
    assert again.returncode == 2
    assert "is finished" in again.stderr
    assert (run / "args.json").read_text() == before


@pytest.mark.long
def test_from_states(tmp_path: Path) -> None:
    words = ["--encoder_type", "identity", "--domain_name", "walker", "--task_name", "walk", *TINY, "--save_video"]
    done = _train(*words, "--work_dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    train = [line for line in done.stdout.splitlines() if line.startswith("| train")]
    assert len(train) == 2
    assert all(re.fullmatch(_pattern(TRAIN), line) and line.endswith("RLOSS: 0.0000") for line in train)
    assert (tmp_path / "run" / "video" / "110.mp4").is_file()
    assert not (tmp_path / "run" / "tb").exists()


# ---- the cluster

STAND_IN = """#!/usr/bin/env bash
# In the place of Python: notes how many are at work, then says that the run is finished.
while [ $# -gt 0 ]; do
  [ "$1" = --work_dir ] && folder=$2
  [ "$1" = --seed ] && seed=$2
  shift
done
echo at-work $(ls -d "$folder"/../seed_*/busy 2>/dev/null | wc -l)
touch "$folder/busy"
sleep 0.7
rm "$folder/busy"
[ "$seed" = 13 ] && echo "bad luck" >&2 && exit 1
echo '{"status": "finished"}' > "$folder/run.json"
"""


def _without_slurm() -> str:
    """A PATH with everything but sbatch."""
    return os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not Path(p, "sbatch").exists())


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _cluster(folder: Path, *words: str, script: str = "run_cluster.sh", **settings: str) -> Any:
    env = {**os.environ, "PATH": _without_slurm(), "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, **settings}
    return subprocess.run(
        [str(FOLDER / script), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


def test_without_slurm_seeds_run_here_a_few_at_a_time(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", STAND_IN)
    settings = {"PYTHON": str(python), "JOBS": "2", "SEEDS": "1 2 3"}
    done = _cluster(tmp_path, "walker", "walk", "--batch_size", "9", "agent.burst=false", **settings)
    assert done.returncode == 0, done.stderr
    config = tmp_path / "runs" / "walker_walk" / "sac_ae"
    assert sorted(p.name for p in config.iterdir()) == ["seed_1", "seed_2", "seed_3"]
    for seed in (1, 2, 3):
        run = config / f"seed_{seed}"
        assert {p.name for p in run.iterdir()} == {"id", "stdout", "stderr", "run.sh", "run.slrm", "run.json"}
        assert f"process {(run / 'id').read_text().strip()}\n" in done.stdout
        text = (run / "run.sh").read_text()
        assert f"--seed {seed} --work_dir {run} setup.id=sac_ae --batch_size 9 agent.burst=false" in text
        assert (
            "--domain_name walker --task_name walk --encoder_type pixel --decoder_type pixel --action_repeat 2" in text
        )
        assert int((run / "stdout").read_text().split()[1]) <= 1
    # Once more: nothing is left to do.
    again = _cluster(tmp_path, "walker", "walk", **settings)
    assert again.stdout.count(": finished") == 3


def test_a_seed_that_fails_is_said_and_the_others_run(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", STAND_IN)
    done = _cluster(tmp_path, "cheetah", "run", PYTHON=str(python), SEEDS="13 2", CONFIG="sac_states", JOBS="1")
    assert done.returncode == 1
    assert "seed_13: failed, see stderr there: bad luck" in done.stderr
    config = tmp_path / "runs" / "cheetah_run" / "sac_states"
    assert (config / "seed_2" / "run.json").exists()
    assert "--encoder_type identity --action_repeat 4" in (config / "seed_2" / "run.sh").read_text()


def test_stopping_stops_what_it_started(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", "#!/usr/bin/env bash\nexec sleep 60\n")
    settings = {**os.environ, "PATH": _without_slurm(), "PYTHON": str(python), "SEEDS": "1"}
    process = subprocess.Popen([str(FOLDER / "run_cluster.sh"), "walker", "run"], cwd=tmp_path, env=settings)
    path = tmp_path / "runs" / "walker_run" / "sac_ae" / "seed_1" / "id"
    for _ in range(100):
        if path.exists() and path.read_text().strip():
            break
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


SBATCH = """#!/usr/bin/env bash
[ "$1" = --parsable ] && cp "$2" "$(dirname "$2")/submitted"
echo "41$(date +%N);cluster"
"""


def test_with_slurm_every_seed_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    place = tmp_path / "with space"
    place.mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = _cluster(place, "walker", "walk", PATH=path)
    assert done.returncode == 0, done.stderr
    seeds = sorted((place / "runs" / "walker_walk" / "sac_ae").iterdir())
    assert sorted(p.name for p in seeds) == sorted(f"seed_{i}" for i in range(1, 11))
    for run in seeds:
        assert re.fullmatch(r"41\d+\n", (run / "id").read_text())
        script = (run / "submitted").read_text()
        assert script == (run / "run.slrm").read_text()
        assert f'#SBATCH --output="{run}/stdout"\n' in script
        assert f'#SBATCH --error="{run}/stderr"\n' in script
        assert subprocess.run(["bash", "-n", run / "run.slrm"]).returncode == 0
        # The job does what run.sh says, as one process that Slurm's signals reach.
        assert script.splitlines()[-1].startswith("exec bash ")
        assert (run / "run.sh").read_text().splitlines()[-1].startswith("exec ")
    # It starts as written, from a folder whose name has a space.
    text = (seeds[0] / "run.sh").read_text().rstrip() + " --print-only\n"
    assert f"save_dir='{seeds[0]}'" in " ".join(printed_words(start(["bash", "-c", text], tmp_path)))


def test_the_whole_testbed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = _cluster(tmp_path, "--save_model", script="run_all.sh", PATH=path, SEEDS="4")
    assert done.returncode == 0, done.stderr
    runs = {p.name for p in (tmp_path / "runs").iterdir()}
    assert runs == {task.replace(" ", "_") for task in TESTBED}
    repeats = {
        task: re.findall(r"--action_repeat (\d)", (tmp_path / "runs" / task / "sac_ae/seed_4/run.sh").read_text())
        for task in runs
    }
    assert {task: r for task, r in repeats.items() if r != ["2"]} == {
        **{"cartpole_swingup": ["8"], "reacher_easy": ["4"], "cheetah_run": ["4"], "ball_in_cup_catch": ["4"]},
    }
    assert "--save_model" in (tmp_path / "runs/hopper_hop/sac_ae/seed_4/run.sh").read_text()


def test_how_it_is_used_is_said(tmp_path: Path) -> None:
    for words in ([], ["walker"], ["--seed", "1"]):
        done = _cluster(tmp_path, *words)
        assert done.returncode == 2
        assert "run_cluster.sh DOMAIN TASK" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_the_cluster_script_trains(tmp_path: Path) -> None:
    done = _cluster(tmp_path, "walker", "walk", *TINY, SEEDS="1 2", CONFIG="sac_states", JOBS="2")
    assert done.returncode == 0, done.stdout + done.stderr
    for seed in ("seed_1", "seed_2"):
        run = tmp_path / "runs" / "walker_walk" / "sac_states" / seed
        named = {"id", "stdout", "stderr", "run.sh", "run.slrm", "eval.log", "train.log", "tb", "video"}
        assert named <= {p.name for p in run.iterdir()}
        assert (run / "video" / "40.mp4").is_file()
        assert "| eval | S: 0 | ER: " in (run / "stdout").read_text()
        assert json.loads((run / "run.json").read_text())["config_name"] == "sac_states"


# ---- beside it


def test_the_notebook_runs(tmp_path: Path) -> None:
    for seed, factor in ((1, 1.0), (2, 3.0)):
        run = tmp_path / "runs" / "walker_walk" / "sac_states" / f"seed_{seed}"
        run.mkdir(parents=True)
        rows = [{"step": s, "env_step": 2 * s, "episode_reward": factor * s} for s in (0, 100, 200, 300)[: 2 + seed]]
        (run / "eval.log").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 4')
    (tmp_path / "runs" / "walker_walk" / "empty").mkdir()
    notebook = json.loads((FOLDER / "runs.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert not any(c.get("outputs") for c in notebook["cells"])
    show = "\nprint(json.dumps([x.tolist() for x in results['walker_walk']['sac_states'][1:]]))"
    settings = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", "\n\n".join(cells) + show], cwd=tmp_path, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 seeds    400.0  [200.0, 600.0]  after 400 env_steps" in done.stdout
    grid, mean, low, high = json.loads(done.stdout.splitlines()[-1])
    assert grid == [0, 200, 400]  # as far as both seeds are
    assert mean == [0, 200, 400]
    assert low == [0, 100, 200]
    assert high == [0, 300, 600]


def test_the_environment_has_the_seeds_name() -> None:
    made = yaml.safe_load((FOLDER / "conda_env.yml").read_text())
    assert made["name"] == "pytorch_sac_ae"
    (pip,) = [entry for entry in made["dependencies"] if isinstance(entry, dict)]
    assert pip == {"pip": ["-e ../.."]}

"""The command line as a user meets it: every verb, on small runs of `point`."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medley.cli import main
from tests.faults import harness


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    less = ("logger.use_tb", "experiment.save_video", "experiment.save_report")
    words = [w for w in harness.OPTIONS if not w.startswith(less)]
    code, text = harness.run(["train", *words, f"setup.save_dir={folder / 'run'}"], folder)
    assert code == 0, text
    assert "Report: " in text
    assert "mean" in text, "the success table ends the run"
    return folder / "run"


def test_help_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        [],
        ["train"],
        ["compare"],
        ["resume"],
        ["evaluate"],
        ["report"],
        ["demos"],
        ["list"],
        ["doctor"],
        ["bench"],
    ):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--help"])
        assert stop.value.code == 0
    assert "medley train env=point" in capsys.readouterr().out


def test_run_folder_has_everything(trained: Path) -> None:
    for name in ("config.yaml", "run.json", "train.log", "eval.log", "results.json", "report.html", "tb", "video"):
        assert (trained / name).exists(), name
    assert len(list((trained / "video").glob("800_*.mp4"))) == 3
    info = json.loads((trained / "run.json").read_text())
    assert info["status"] == "finished"
    assert info["step"] == 800
    assert info["frames"] == 2400
    row = json.loads((trained / "train.log").read_text().splitlines()[-1])
    assert row["frames"] == 3 * row["step"]
    assert row["updates"] == row["step"] - 60 + 2  # one update per step, from the chunk that ends the warm-up
    for key in ("episode_reward", "success", "batch_reward", "actor_loss", "critic_loss", "alpha_0", "q_mean_2"):
        assert key in row
    results = json.loads((trained / "results.json").read_text())
    assert [e["step"] for e in results["evaluations"]] == [0, 150, 300, 450, 600, 750, 800]
    assert len(results["evaluations"][0]["episodes"]) == 12
    assert results["protocol"] == "episodes"


def test_lines_have_the_documented_format(trained: Path) -> None:
    text = next(trained.parent.glob("output-*")).read_text()
    assert "| train | E: 6 | S: 140 | D: " in text
    assert "| eval | S: 150 | ER: " in text


@pytest.mark.parametrize("what", ["envs", "agents", "tasks", "options"])
def test_list(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    out = capsys.readouterr().out
    expected = {
        "envs": "metaworld-mt50",
        "agents": "pcgrad_state_sac",
        "tasks": "drawer-close",
        "options": "experiment.num_train_steps\t2000000\tlength of the run",
    }
    assert expected[what] in out


def test_list_options_shows_the_chosen_setup(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "options", "env=point"]) == 0
    assert "agent.actor.hidden_dim\t64\t" in capsys.readouterr().out


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "Ready to train" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["train", "env=pont"], "Did you mean 'point'"),
        (["train", "env=metaworld-mt1", "env.task=drawer-clse"], "drawer-close"),
        (["train", "agent=sac_ae"], "learns from pictures, and metaworld-mt10 gives numbers: take agent=state_sac"),
        (["train", "env=dmc-walker-walk"], "reads numbers, and dmc-walker-walk shows pictures: take agent=sac_ae"),
        (["train", "env=point", "experiment.num_trian_steps=3"], "experiment.num_train_steps"),
        (["train", "env=point", "setup.seed=one"], "setup.seed"),
        (["train", "env=point", "setup.device=cuda:7"], "no such GPU"),
        (["train", "env=point", "--init-from", "nowhere"], "no such run folder"),
        (["train", "env=point", "logger.use_wandb=true"], "pip install 'medley[wandb]'"),
        (["resume", "nowhere"], "not a run folder"),
        (["evaluate", "nowhere"], "not a run folder"),
        (["report", "nowhere"], "no folder"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    words: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert hint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_train_again_refuses_and_fresh_keeps_the_old(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["train", *harness.OPTIONS, f"setup.save_dir={run}", "experiment.num_train_steps=60"]
    assert main(words) == 0
    assert main(words) == 2
    assert "is finished" in capsys.readouterr().err
    assert main([*words, "agent.discount=0.9"]) == 2
    assert "agent.discount: 0.95 -> 0.9" in capsys.readouterr().err
    assert main([*words, "--fresh"]) == 0
    assert (tmp_path / "run.old-1" / "results.json").exists()


def test_resume_refuses_grave_changes_and_allows_harmless_ones(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    code, text = harness.run(harness.train_words(run), tmp_path, harness.stop_at(200))
    assert code == 130, text
    assert main(["resume", str(run), "agent.critic_tau=0.02"]) == 2
    assert "agent.critic_tau: 0.01 -> 0.02" in capsys.readouterr().err
    assert main(["resume", str(run), "logger.train_freq=35", "experiment.num_train_steps=240"]) == 0
    assert main(["resume", str(run), "agent.critic_tau=0.02", "experiment.num_train_steps=260", "--override"]) == 0
    assert "critic_tau: 0.02" in (run / "config.yaml").read_text()
    before = (run / "config.yaml").read_text()
    capsys.readouterr()
    wider = ["agent.critic.hidden_dim=24", "experiment.num_train_steps=300", "--override"]
    assert main(["resume", str(run), *wider]) == 2
    assert "the network sizes differ" in capsys.readouterr().err
    assert (run / "config.yaml").read_text() == before, "what was refused leaves nothing behind"


def test_max_minutes_ends_with_an_evaluation(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = harness.train_words(run, "experiment.num_train_steps=100000000", "experiment.max_minutes=0.03")
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "finished"
    assert json.loads((run / "results.json").read_text())["evaluations"][-1]["step"] == info["step"]


def test_sweep_trains_every_seed_and_reports_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [w for w in harness.OPTIONS if "num_train_steps" not in w]
    assert main(["train", *words, "experiment.num_train_steps=60", "setup.seed=1,2", "setup.id=sweep"]) == 0
    assert "Report over 2 runs" in capsys.readouterr().out
    assert (tmp_path / "runs/point/sweep/seed_2/results.json").exists()


def signal_after_episodes(count: int, number: int) -> Callable[[], None]:
    """In the child: a signal to oneself once `count` episodes have been written."""

    def prepare() -> None:
        from medley.training import evaluate

        original, calls = evaluate.write_json, 0

        def write(path: Path, value: object) -> None:
            nonlocal calls
            original(path, value)
            calls += 1
            if calls == count:
                os.kill(os.getpid(), number)

        evaluate.write_json = write

    return prepare


def test_evaluate_stopped_and_started_again_ends_with_the_same_file(trained: Path, tmp_path: Path) -> None:
    words = ["evaluate", str(trained), "experiment.num_eval_episodes=20", "experiment.eval_slots_per_task=3"]
    out = trained / "evaluation_episodes_800.json"
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    whole = out.read_bytes()
    out.unlink()
    for count, number, status in ((7, signal.SIGKILL, -9), (1, signal.SIGTERM, 130), (12, signal.SIGKILL, -9)):
        code, text = harness.run(words, tmp_path, signal_after_episodes(count, number))
        assert code == status, text
        assert not json.loads(out.read_text())["complete"]
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    assert "Going on after" in text
    assert out.read_bytes() == whole


def test_evaluate_gives_what_training_gave(trained: Path) -> None:
    assert main(["evaluate", str(trained)]) == 0
    again = json.loads((trained / "evaluation_episodes_800.json").read_text())
    (trained / "evaluation_episodes_800.json").unlink()
    before = json.loads((trained / "results.json").read_text())
    last = before["evaluations"][-1]
    assert {"step", "env_step", "frames", "updates", "episode", "success", "return", "per_task", "episodes"} == set(
        last
    )
    assert {key: again[key] for key in last} == last
    assert [again[key] for key in ("format", "protocol", "tasks")] == [
        before[k] for k in ("format", "protocol", "tasks")
    ]


def test_evaluate_other_protocols(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained), "experiment.protocol=tdmpc2", "experiment.num_eval_episodes=2"]) == 0
    assert json.loads((trained / "evaluation_tdmpc2_800.json").read_text())["protocol"] == "tdmpc2"
    assert main(["evaluate", str(trained), "experiment.protocol=tdmcp"]) == 2
    assert "tdmpc2" in capsys.readouterr().err
    assert main(["evaluate", str(trained), "--checkpoint", "7"]) == 2
    assert "there are" in capsys.readouterr().err


def test_init_from_starts_with_trained_weights(trained: Path, tmp_path: Path) -> None:
    from medley.training.checkpoints import load_agent

    run = tmp_path / "run"
    words = harness.train_words(run, "experiment.num_train_steps=20", "--init-from", str(trained))
    code, text = harness.run(words, tmp_path)
    assert code == 0, text
    old = load_agent(trained / "checkpoints" / "800")
    new = load_agent(run / "checkpoints" / "20")  # before the warm-up ends nothing is learnt
    for name in ("actor.hidden.0.weight", "critic.heads.weight", "target.heads.bias", "log_alpha"):
        assert old[name].equal(new[name])
    code, text = harness.run(
        harness.train_words(
            tmp_path / "other", "env.num_tasks=2", "replay_buffer.batch_size=48", "--init-from", str(trained)
        ),
        tmp_path,
    )
    assert code == 2
    assert "the tasks or the network sizes differ" in text


def test_tensorboard_is_purged_on_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    words = [w for w in harness.train_words(run) if "use_tb" not in w]
    child = harness.Child(words, tmp_path / "out")
    child.wait_for(run / "checkpoints" / "400")
    time.sleep(0.1)
    child.signal(signal.SIGKILL)
    child.process.join()
    code, text = harness.run(["resume", str(run)], tmp_path)
    assert code == 0, text
    events = EventAccumulator(str(run / "tb"), size_guidance={"scalars": 0})
    events.Reload()
    steps = [e.step for e in events.Scalars("train/critic_loss")]
    rows = [json.loads(line) for line in (run / "train.log").read_text().splitlines()]
    assert steps == [row["step"] for row in rows if "critic_loss" in row]


def test_panel_on_a_terminal(tmp_path: Path) -> None:
    """The live panel in a real pseudo-terminal."""
    import pty
    import subprocess
    import sys

    words = [w for w in harness.train_words(tmp_path / "run") if "logger.console" not in w]
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen([sys.executable, "-m", "medley", *words], stdout=child, stderr=child, env=environment)
    os.close(child)
    shown = b""
    try:
        while chunk := os.read(parent, 65536):
            shown += chunk
    except OSError:  # the terminal's other end was closed
        pass
    assert process.wait() == 0, shown.decode()
    text = shown.decode()
    assert "updates/s" in text
    assert "800/800" in text
    assert "north" in text

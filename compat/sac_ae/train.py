"""SAC+AE on a task of dm_control: `python train.py --domain_name cheetah --task_name run --action_repeat 4`.

Every option keeps its name and default. OPTIONS says what each is to medley; the README has the same as a table.
"""

import argparse
import difflib
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from starting import add_fresh, quoted, translate_and_train

# Name: (default, medley's options for it). Counts of steps are decisions of the agent, here as there.
OPTIONS = {
    "action_repeat": (1, ["env.action_repeat"]),
    "replay_buffer_capacity": (1000000, ["replay_buffer.capacity"]),
    "init_steps": (1000, ["experiment.init_steps"]),
    "num_train_steps": (1000000, ["experiment.num_train_steps"]),
    "batch_size": (128, ["replay_buffer.batch_size"]),
    "hidden_dim": (1024, ["agent.actor.hidden_dim", "agent.critic.hidden_dim"]),
    "eval_freq": (10000, ["experiment.eval_freq"]),
    "num_eval_episodes": (10, ["experiment.num_eval_episodes"]),
    "critic_lr": (1e-3, ["agent.optimizers.critic.lr"]),
    "critic_beta": (0.9, ["agent.optimizers.critic.beta1"]),
    "critic_tau": (0.01, ["agent.critic_tau"]),
    "critic_target_update_freq": (2, ["agent.critic_target_update_freq"]),
    "actor_lr": (1e-3, ["agent.optimizers.actor.lr"]),
    "actor_beta": (0.9, ["agent.optimizers.actor.beta1"]),
    "actor_update_freq": (2, ["agent.actor_update_freq"]),
    "discount": (0.99, ["agent.discount"]),
    "init_temperature": (0.1, ["agent.init_temperature"]),
    "alpha_lr": (1e-4, ["agent.optimizers.alpha.lr"]),
    "alpha_beta": (0.5, ["agent.optimizers.alpha.beta1"]),
    "seed": (1, ["setup.seed"]),
}
# Those that only an encoder of pictures has, and those that only a decoder has.
ENCODER = {
    "image_size": (84, ["env.image_size"]),
    "frame_stack": (3, ["env.frame_stack"]),
    "encoder_feature_dim": (50, ["agent.pixels.feature_dim"]),
    "encoder_tau": (0.05, ["agent.pixels.tau"]),
    "num_layers": (4, ["agent.pixels.num_layers"]),
    "num_filters": (32, ["agent.pixels.num_filters"]),
}
DECODER = {
    "encoder_lr": (1e-3, ["agent.optimizers.encoder.lr"]),
    "decoder_lr": (1e-3, ["agent.optimizers.decoder.lr"]),
    "decoder_update_freq": (1, ["agent.decoder.update_freq"]),
    "decoder_latent_lambda": (1e-6, ["agent.decoder.latent_lambda"]),
    "decoder_weight_lambda": (1e-7, ["agent.decoder.weight_lambda"]),
}
# What SAC from states is there, and is not by medley's own defaults.
STATES = ["agent.actor.num_layers=2", "agent.critic.num_layers=2", "agent.actor.log_std_bounding=tanh"]
STATES += ["agent.grad_clip=null", "agent.burst=true"]

AGENTS = ("sac_ae",)
TYPES = ("pixel", "identity")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """With the nearest option, where there is none of that name."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0]
        if unknown != message.split()[0]:
            near = difflib.get_close_matches(unknown.split("=")[0], self._option_string_actions, n=1)
            message += f". Did you mean {near[0]}?" if near else ""
        super().error(message)


def parser():
    made = Parser(description=__doc__.splitlines()[0], allow_abbrev=False)
    made.add_argument("--domain_name", default="cheetah")
    made.add_argument("--task_name", default="run")
    made.add_argument("--agent", default="sac_ae")
    made.add_argument("--encoder_type", default="pixel", help="pixel, or identity: states")
    made.add_argument("--decoder_type", help="pixel, or identity: none; default: as the encoder")
    for name, (default, options) in (OPTIONS | ENCODER | DECODER).items():
        made.add_argument(f"--{name}", default=default, type=type(default), help=f"{' and '.join(options)}; {default}")
    made.add_argument("--actor_log_std_min", default=-10, type=float, help="agent.actor.log_std_bounds; -10")
    made.add_argument("--actor_log_std_max", default=2, type=float, help="agent.actor.log_std_bounds; 2")
    made.add_argument("--work_dir", default="./save", help="the run folder; ./save")
    made.add_argument("--save_tb", action="store_true", help="TensorBoard files in tb/")
    made.add_argument("--save_model", action="store_true", help="keep the snapshots of all evaluations, not only two")
    made.add_argument("--save_buffer", action="store_true", help="on already: a run that was stopped goes on exactly")
    made.add_argument("--save_video", action="store_true", help="film an episode of every evaluation")
    add_fresh(made)
    made.add_argument("--print-only", action="store_true", help="show medley's command, but do not run it")
    made.add_argument("options", nargs="*", help="options of medley, like setup.device=cpu; they win")
    return made


def translate(words):
    a = parser().parse_intermixed_args(words)
    made = [*_method(a), f"setup.save_dir={quoted(a.work_dir)}", *_outputs(a)]
    return [*made, *a.options], [], a.print_only


def _method(a):
    """The task, what is seen of it, and the agent that suits."""
    encoder, decoder = _types(a)
    pixels = encoder == "pixel"
    agent = "state_sac" if not pixels else "sac_ae" if decoder == "pixel" else "sac"
    words = [f"env=dmc-{a.domain_name}-{a.task_name}", f"env.observation={'pixels' if pixels else 'states'}"]
    words += [f"agent={agent}", f"setup.id={'sac_states' if not pixels else 'sac_pixels' if agent == 'sac' else agent}"]
    words += STATES if not pixels else []
    known = OPTIONS | (ENCODER if pixels else {}) | (DECODER if agent == "sac_ae" else {})
    words += [f"{option}={getattr(a, name)}" for name, (_, options) in known.items() for option in options]
    return [*words, f"agent.actor.log_std_bounds=[{a.actor_log_std_min},{a.actor_log_std_max}]"]


def _types(a):
    from medley.errors import ConfigError, closest

    decoder = a.decoder_type or a.encoder_type
    for name, value, known in (
        ("agent", a.agent, AGENTS),
        ("encoder_type", a.encoder_type, TYPES),
        ("decoder_type", decoder, TYPES),
    ):
        if value not in known:
            raise ConfigError(f"--{name} {value} does not exist.{closest(value, known)}")
    if a.encoder_type == "identity" and decoder == "pixel":
        raise ConfigError("--encoder_type identity learns from states: --decoder_type pixel has no picture to draw.")
    return a.encoder_type, decoder


def _outputs(a):
    """Lines, logs and files as they are described there."""
    video = ["experiment.video.at_eval=true", "experiment.video.size=[256,256]"]
    video += ["experiment.video.every=1", "experiment.video.fps=30"]
    words = ["metrics=sac_ae", "logger.console=lines", "logger.per_episode=true"]
    words += [f"logger.use_tb={str(a.save_tb).lower()}", f"experiment.save_video={str(a.save_video).lower()}"]
    words += video if a.save_video else []
    return [*words, *(["experiment.save.model.retain_last_n=-1"] if a.save_model else [])]


def keep(arguments, words, anew):
    """args.json, beside the files of a run that is about to begin, or was begun anew."""
    from medley.config.load import load_config

    config = load_config(words)  # refuses what is wrong before there is a folder
    folder = Path(config.setup.save_dir)
    if anew or not (folder / "args.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        a = parser().parse_intermixed_args(arguments)
        asked = {name: value for name, value in vars(a).items() if name not in ("print_only", "fresh")}
        (folder / "args.json").write_text(json.dumps(asked, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    raise SystemExit(translate_and_train(__file__, translate, keep))

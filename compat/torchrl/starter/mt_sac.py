"""Multi-task SAC: `python starter/mt_sac.py --id MT10 --seed 1`, or with `--config` a file whose env_name is mt10."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from starting import translate_and_train

CONFIGS = Path(__file__).resolve().parents[1] / "config"
TASKS = {"mt10": 10, "mt50": 50}


def translate(words):
    import torchrl_settings
    import torchrl_words

    from medley.errors import ConfigError, closest

    arguments = torchrl_settings.parser(__doc__).parse_intermixed_args(words)
    named = [name for name in TASKS if (arguments.id or "").lower().startswith(name)]
    default = CONFIGS / f"{named[0] if named else 'mt10'}_sac.json"
    values, remarks = torchrl_settings.settings(arguments, default)
    env = str(values["env_name"]).lower()
    if env not in TASKS:
        raise ConfigError(f"env_name={env!r} does not exist.{closest(env, TASKS)}")
    made = [f"env=metaworld-{env}", "agent=state_sac", "agent.alpha_per_task=true"]
    made += torchrl_words.run_words(arguments, env, default)
    made += torchrl_words.setting_words(values, TASKS[env])
    return [*made, *arguments.options], remarks, arguments.print_only


if __name__ == "__main__":
    raise SystemExit(translate_and_train(__file__, translate))

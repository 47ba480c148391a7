"""Single-task SAC: `python starter/st_sac.py --id MT10_Individual_Tasks --task_id 4 --seed 1`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from starting import translate_and_train

CONFIG = Path(__file__).resolve().parents[1] / "config" / "sac_ind.json"

# In the order, and in the spelling, that their ids and log folders have; medley knows all of them.
TASKS = [
    "reach-v1",
    "push-v1",
    "pick-place-v1",
    "door-v1",
    "drawer-open-v1",
    "drawer-close-v1",
    "button-press-topdown-v1",
    "ped-insert-side-v1",
    "window-open-v1",
    "window-close-v1",
]


def translate(words):
    import torchrl_settings
    import torchrl_words

    parser = torchrl_settings.parser(__doc__)
    parser.add_argument("--task_id", type=int, required=True, choices=range(len(TASKS)), help=", ".join(TASKS))
    arguments = parser.parse_intermixed_args(words)
    task = TASKS[arguments.task_id]
    values, remarks = torchrl_settings.settings(arguments, CONFIG)
    made = ["env=metaworld-mt1", f"env.task={task}", "agent=state_sac"]
    made += torchrl_words.run_words(arguments, task, CONFIG)
    made += torchrl_words.setting_words(values, tasks=1)
    return [*made, *arguments.options], remarks, arguments.print_only


if __name__ == "__main__":
    raise SystemExit(translate_and_train(__file__, translate))

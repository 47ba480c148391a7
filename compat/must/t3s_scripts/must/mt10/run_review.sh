#!/usr/bin/env bash
# bash run_review.sh SEED UPDATE_INTERVAL PRUNING_RATIO GENERATOR_LR USE_SL_LOSS USE_TRAJECTORY_INFO TASKS [more]
# `more` is passed on: --specify_single_task NAME, --print-only, or options of medley.
# With Slurm, from here or from the top of the repository: sbatch --gres=gpu:1 ... run_review.sh SEED ...
set -euo pipefail
if [ $# -lt 7 ]; then
  sed -n '2,/^set/s/^# //p' "$0" >&2
  exit 2
fi
# The folder with starter/, meta_config/ and log/. A job runs a copy of this file that lies in a folder of Slurm's own:
# then it is found from the one that sbatch was called in.
for place in "$(dirname "$0")/../../.." "${SLURM_SUBMIT_DIR:-.}"/{../../..,compat/must,.}; do
  if [ -f "$place/starter/mt_must_sac.py" ]; then
    cd "$place"
    break
  fi
done
if [ ! -f starter/mt_must_sac.py ]; then
  echo "run_review.sh: submit it from the folder it is in, or from the top of the repository." >&2
  exit 2
fi
exec "${PYTHON:-python3}" starter/mt_must_sac.py --config meta_config/must_configs/mt10/must_mtsac.json \
  --id "itv$2_pr$3_sllr$4_slloss$5_trajinfo$6_selected$7" --seed "$1" \
  --mask_update_interval "$2" --pruning_ratio "$3" --generator_lr "$4" \
  --use_sl_loss "$5" --use_trajectory_info "$6" --selected_task_amount "$7" "${@:8}"

#!/usr/bin/env bash
# ./run_all.sh [options]: run_cluster.sh for all ten tasks of the testbed; it says which options and variables there are.
set -euo pipefail
# A job runs a copy of this file, in a folder of Slurm's own: then it is found from the one that sbatch was called in.
for HERE in "$(dirname "$0")" "${SLURM_SUBMIT_DIR:-.}"/{.,compat/sac_ae}; do
  if [ -f "$HERE/run_cluster.sh" ] && [ -f "$HERE/../starting.py" ]; then break; fi
done
if [ ! -f "$HERE/run_cluster.sh" ] || [ ! -f "$HERE/../starting.py" ]; then
  echo "run_all.sh: submit it from the folder it is in, or from the top of the repository." >&2
  exit 2
fi
TASKS=(
  "cartpole swingup"
  "reacher easy"
  "cheetah run"
  "finger spin"
  "ball_in_cup catch"
  "walker walk"
  "walker stand"
  "walker run"
  "hopper stand"
  "hopper hop"
)
asked=
stop() { # a signal may be for this process alone, as that of Slurm's --signal=B: is
  asked=yes
  # shellcheck disable=SC2046
  kill -TERM $(jobs -rp) 2>/dev/null || true
}
trap stop INT TERM
failed=0
for task in "${TASKS[@]}"; do
  # shellcheck disable=SC2086
  "$HERE/run_cluster.sh" $task "$@" &
  [ -z "$asked" ] || stop # it came while that was starting
  while wait $! && code=0 || code=$?; kill -0 $! 2>/dev/null; do :; done # a signal ends `wait`, not what is waited for
  [ -z "$asked" ] && [ "$code" -ne 130 ] || exit 130
  [ "$code" -eq 0 ] || failed=1
done
exit $failed

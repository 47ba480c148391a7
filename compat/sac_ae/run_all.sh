#!/usr/bin/env bash
# ./run_all.sh [options]: run_cluster.sh for all ten tasks of the testbed; it says which options and variables there are.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
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
failed=0
for task in "${TASKS[@]}"; do
  code=0
  # shellcheck disable=SC2086
  "$HERE/run_cluster.sh" $task "$@" || code=$?
  [ "$code" -eq 130 ] && exit 130 # asked to stop
  [ "$code" -eq 0 ] || failed=1
done
exit $failed

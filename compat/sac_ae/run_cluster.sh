#!/usr/bin/env bash
# ./run_cluster.sh DOMAIN TASK [options of train.py or medley]
#
# Trains ten seeds, each in ./runs/DOMAIN_TASK/CONFIG/seed_i. With Slurm (sbatch) every seed is a job of its own;
# without it the same scripts run on this machine, and this one waits for them. The same command again goes on with
# what was stopped and leaves alone what is finished, under way or in the queue. Variables that it looks at:
#   SEEDS="1 2 3"       which seeds; default: 1 to 10
#   CONFIG=sac_states   sac_ae (default), sac_pixels, sac_states, or any name of your own: sac_ae with other options
#   ON=local            on this machine although there is Slurm; ON=slurm: as jobs. Default: jobs where Slurm is set up
#   JOBS=2              on this machine: how many seeds at once; default: 1
#   RUNS=./runs         where the folders are
#   PYTHON=python3      which Python
#   SLURM="--mem=8G"    as jobs: what a job asks for instead of one GPU, 10 cores, 64 GB and three days
set -euo pipefail
if [ $# -lt 2 ] || [[ $1 == -* ]] || [[ $2 == -* ]]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
DOMAIN=$1 TASK=$2
shift 2
CONFIG=${CONFIG:-sac_ae} SEEDS=${SEEDS:-1 2 3 4 5 6 7 8 9 10} JOBS=${JOBS:-1} RUNS=${RUNS:-./runs}
PYTHON=${PYTHON:-$(command -v python || command -v python3)}
# A program that belongs to no cluster does not even tell its version; one whose cluster is down does.
ON=${ON:-$(sbatch --version >/dev/null 2>&1 && echo slurm || echo local)}
if [ "$ON" != local ] && [ "$ON" != slurm ]; then
  echo "run_cluster.sh: ON=$ON does not exist; there is local, slurm." >&2
  exit 2
fi

# ---- what is trained: change it here

case "$DOMAIN $TASK" in
  "cartpole swingup") ACTION_REPEAT=8 ;;
  "cheetah run" | "reacher easy" | "ball_in_cup catch") ACTION_REPEAT=4 ;;
  *) ACTION_REPEAT=2 ;;
esac
case $CONFIG in
  sac_states) METHOD=(--encoder_type identity) ;;
  sac_pixels) METHOD=(--encoder_type pixel --decoder_type identity) ;;
  *) METHOD=(--encoder_type pixel --decoder_type pixel) ;;
esac
HYPER=(
  --action_repeat "$ACTION_REPEAT"
  --num_train_steps 1000000
  --init_steps 1000
  --batch_size 128
  --hidden_dim 1024
  --eval_freq 10000
  --num_eval_episodes 10
  --save_tb
  --save_video
)
# Two minutes before the time limit, and when it is preempted, a run saves itself and goes back into the queue.
read -ra ASKED <<<"${SLURM:---cpus-per-task=10 --gres=gpu:1 --mem=64G --time=72:00:00}"
JOB=(--nodes=1 --ntasks=1 "${ASKED[@]}" --requeue --signal=B:TERM@120)

# ---- how it is started

# A job runs a copy of this file, in a folder of Slurm's own: then it is found from the one that sbatch was called in,
# where there may be a train.py of somebody else's.
for HERE in "$(dirname "$0")" "${SLURM_SUBMIT_DIR:-.}"/{.,compat/sac_ae}; do
  if [ -f "$HERE/train.py" ] && [ -f "$HERE/../starting.py" ]; then break; fi
done
if [ ! -f "$HERE/train.py" ] || [ ! -f "$HERE/../starting.py" ]; then
  echo "run_cluster.sh: submit it from the folder it is in, or from the top of the repository." >&2
  exit 2
fi
HERE=$(cd "$HERE" && pwd)
mkdir -p "$RUNS"
ALL=$(cd "$RUNS" && pwd)
FOLDERS=() # of the seeds that run here

# The two scripts of a seed.
write_scripts() { # FOLDER SEED MORE...
  local folder=$1 seed=$2
  {
    echo '#!/usr/bin/env bash'
    printf 'exec'
    printf ' %q' "$PYTHON" -u "$HERE/train.py" --domain_name "$DOMAIN" --task_name "$TASK" "${METHOD[@]}" "${HYPER[@]}" \
      --seed "$seed" --work_dir "$folder" "setup.id=$CONFIG" "${@:3}"
    echo
  } >"$folder/run.sh"
  {
    echo '#!/usr/bin/env bash'
    printf '#SBATCH %s\n' "--job-name=${DOMAIN}_${TASK}_${CONFIG}_$seed" "--output=\"$folder/stdout\"" \
      "--error=\"$folder/stderr\"" --open-mode=append "${JOB[@]}"
    printf 'srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" bash %q &\n' "$folder/run.sh"
    cat <<'END'
run=$!
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM # to what srun has started
while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done # a signal ends `wait`, not the run
# Whoever was asked to stop by Slurm is still RUNNING there, unless somebody cancelled the job.
if [ $code = 130 ] && [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
END
  } >"$folder/run.slrm"
  chmod +x "$folder/run.sh"
}

is_finished() { grep -qs '"status": "finished"' "$1/run.json"; }

# By the job's script too: `id` may be that of a process, and Slurm counts its jobs from the start again some day. The
# queue is asked for once, as that takes a while where nobody answers.
is_queued() { # FOLDER
  [ -s "$1/id" ] || return 1
  [ -n "${QUEUE+known}" ] || QUEUE=$(squeue -h -o '%i %o' 2>/dev/null || true)
  grep "^$(cat "$1/id") " <<<"$QUEUE" | grep -qF "/${1#"$ALL/"}/run.slrm"
}

# By the lock that a run holds; and, as it is some seconds old before it does, by the process that was started for it.
is_running() { # FOLDER
  local code=0
  if [ -e "$1/.lock" ] && command -v flock >/dev/null; then
    flock --nonblock --conflict-exit-code 9 "$1/.lock" true 2>/dev/null || code=$?
    [ $code -ne 9 ] || return 0
  fi
  [ -s "$1/id" ] || return 1
  case " $(ps -ww -o args= -p "$(cat "$1/id")" 2>/dev/null) " in
    *" $1/run.sh "* | *" --work_dir $1 "*) ;;
    *) return 1 ;;
  esac
}

stop() { # what is under way saves itself, and goes on when this is started again
  trap - INT TERM
  # shellcheck disable=SC2046
  kill $(jobs -rp) 2>/dev/null || true
  wait
  exit 130
}
trap stop INT TERM

for seed in $SEEDS; do
  while [ "$ON" = local ] && [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do sleep 0.5; done
  folder=$ALL/${DOMAIN}_$TASK/$CONFIG/seed_$seed
  mkdir -p "$folder"
  if is_finished "$folder"; then
    echo "$folder: finished"
    continue
  fi
  if is_queued "$folder"; then
    echo "$folder: job $(cat "$folder/id") is in the queue already"
    continue
  fi
  if is_running "$folder"; then
    echo "$folder: a process is at work there already"
    continue
  fi
  write_scripts "$folder" "$seed" "$@"
  if [ "$ON" = slurm ]; then
    if ! job=$(sbatch --parsable "$folder/run.slrm"); then
      echo "run_cluster.sh: sbatch took no job; with ON=local the seeds are trained on this machine instead." >&2
      exit 1
    fi
    echo "${job%%;*}" >"$folder/id"
    echo "$folder: job ${job%%;*}"
  else
    FOLDERS+=("$folder")
    bash "$folder/run.sh" >>"$folder/stdout" 2>>"$folder/stderr" &
    echo $! >"$folder/id"
    echo "$folder: process $!"
  fi
done

while [ "$(jobs -rp | wc -l)" -gt 0 ]; do sleep 0.5; done
failed=0
for folder in ${FOLDERS[@]+"${FOLDERS[@]}"}; do
  if ! is_finished "$folder"; then
    echo "$folder: failed, see stderr there: $(tail -n 1 "$folder/stderr")" >&2
    failed=1
  fi
done
exit $failed

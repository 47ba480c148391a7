#!/usr/bin/env bash
# Every method on MT10 under one protocol, side by side on one GPU; the report is runs/metaworld-mt10/report.html.
# SEEDS=3 JOBS=14 STEPS=200000 ONLY="care film" bash results/mt10/compare.sh [options of all methods]; the same command goes on.
set -euo pipefail
plain=state_sac+agent.trunk=multi_head+agent.alpha_per_task=true
methods=(
  "$plain+setup.id=multi_head_400"
  "$plain+agent.actor.hidden_dim=1024+agent.critic.hidden_dim=1024+setup.precision=bf16+setup.id=multi_head_1024"
  "brc+agent.critic.hidden_dim=1024+agent.updates_per_step=1+setup.precision=bf16+setup.id=brc_1024"
  "medley+setup.precision=bf16+env.train_horizon=200+setup.id=medley"
  "soft_modules+setup.id=soft_modules"
  "care+setup.id=care"
  "film+setup.id=film"
  "t3s+setup.id=t3s"
  "must+setup.id=must"
  "paco+setup.id=paco"
  "moore+setup.id=moore"
  "$plain+agent.gradients=pcgrad+setup.id=pcgrad"
  "$plain+agent.gradients=cagrad+setup.id=cagrad"
  "$plain+agent.gradients=famo+setup.id=famo"
)
if [ -n "${ONLY:-}" ]; then
  all=("${methods[@]}") methods=()
  for name in $ONLY; do for method in "${all[@]}"; do [[ $method == *+setup.id=$name ]] && methods+=("$method"); done; done
fi
# Many processes share a GPU better through one that submits their work.
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d 2> /dev/null || true
agents=$(IFS=,; echo "${methods[*]}")
exec python3 -m medley compare "agents=$agents" seeds="${SEEDS:-1}" jobs="${JOBS:-${#methods[@]}}" env=metaworld-mt10 \
  experiment.num_train_steps="${STEPS:-200000}" experiment.eval_freq=20000 experiment.save_freq=100000 experiment.save_video=false \
  replay_buffer.capacity=2000000 env.slots_per_task=8 env.threads=1 logger.use_tb=false "$@"

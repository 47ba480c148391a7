"""What `--help` says of the words that verbs take, and examples."""

from __future__ import annotations

EXAMPLES = """\
examples:
  medley train                                             MT10 with the agent that does best there
  medley train env=point                                   a small world, learnt in seconds
  medley train env=metaworld-mt1 env.task=drawer-close     one task
  medley train env=metaworld env.tasks=[reach,push]        any tasks
  medley train setup.seed=1,2,3                            three runs, one after the other
  medley train setup.seed=1,2,3 experiment.seeds_together=3    the same at once, in one program
  medley compare env=point seeds=3 agents=state_sac,state_sac+agent.trunk=multi_head
  medley resume runs/point/state_sac/seed_1
  medley report runs/point
  medley report runs --by agent                            one row and one curve per agent
  medley tune env=point 'agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-2))' n_trials=20
  medley export runs/point/state_sac/seed_1                a file that acts without medley and PyTorch
  medley demos env=metaworld-aux env.task=push             examples to learn from in place of rewards
  medley list options                                      everything that can be set
"""

COMPARE = """\
agents=state_sac,care            methods, one after the other
agents=state_sac+agent.trunk=multi_head,state_sac+agent.trunk=disjoint+setup.id=apart
                                 with options of their own, after a + or a space; setup.id names a method
seeds=3                          seeds 1, 2, 3
seeds=4,7                        exactly these
jobs=4                           so many runs at a time, each a process of its own

All runs are checked before the first starts. Finished runs are not repeated, and the same command goes on where it was
stopped. A run that fails does not stop the others; the exit code is then 1.
"""

LAUNCH = """\
on=local                         this machine (the default), slurm or ray
jobs=2                           on this machine: runs at once
seeds=10                         seeds 1 to 10; seeds=4,7 exactly these
agent=state_sac,care env=a,b     every combination of values between commas is a run, times the seeds
retries=2                        how often a run that failed is started again, from its checkpoint
resources.gpus=1 .cpus=10 .memory=64G .time=24:00:00 .partition= .account=
resources.per_job=5              runs side by side in one job, on one GPU; on Ray also resources.gpus=0.2
resources.array=20               jobs of Slurm's array at once
resources.container="apptainer exec --nv medley.sif"      goes before its own python3
resources.before="module load cuda"                       a line of shell that comes first

The same command again skips what is finished, leaves alone what is under way and goes on with what is not. Every run's
folder has run.sh, id, stdout and stderr beside what every run has. `medley status RUNS` says how far they are.
"""

REPORT = """\
--by agent                       average over all runs of an agent; --by env likewise
--by agent.trunk                 over all runs with the same value of an option
--by env,agent,agent.trunk       of several

Runs that differ in their protocol (env and its options, tasks, evaluation, length of training) are never averaged
together: they are shown apart, and the report says why. Other options that differ are named.

Beside report.html, report/ has every picture as PNG, SVG and CSV, and the tables summary and summary_tasks as Markdown,
LaTeX and CSV.

--serve                          curves grow while runs are under way, on http://127.0.0.1:8000/ until Ctrl-C
--serve --port 0 --host 0.0.0.0  on any free port, for other machines too
"""

TUNE = """\
'agent.optimizers.actor.lr=tag(log, interval(1e-4, 1e-2))'    numbers between two ends; with tag(log, ...) by magnitude
'agent.actor.num_layers=range(1,4)'  'agent.actor.hidden_dim=range(16,64,16)'    steps from one end to the other
agent.trunk=shared,disjoint      a choice
n_trials=20                      how many trials, in all
objective=success                or return: what is to be large at the last evaluation, over all tasks
seeds=3                          every trial is the mean of seeds 1, 2, 3; default: one seed
jobs=2                           runs at once: trials that are proposed together
sampler=tpe                      or random, grid; sampler.n_startup_trials=5, sampler.seed=1, ... are its own options
pruning=true                     gives up trials that are below the median of the others so far (on=local)
setup.id=NAME                    of the folder; default: the agent's and a number for the search
on=, retries=, resources.*       as for medley launch

The same command again goes on where it was stopped or killed; a larger n_trials adds trials. The folder,
tune/<env>/<name>, has a run folder for every trial and seed, study.db (Optuna's), trials.csv and trials.png.
"""

DEMOS = """\
env=metaworld-aux env.task=push  where to record; with from=RUN the run's own env
examples=200                     states of success to record, for every task
demos=20                         whole demonstrations to record as well, for every task; they go into a second file
from=RUN                         a trained run acts; else the env's own script does; else the env makes up examples
tasks=[main,reach]               only these tasks or intentions; default: all
from_minari=PATH                 demonstrations from a Minari dataset (medley[minari]) instead of recording any
minari=NAME                      demonstrations also as a Minari dataset of that name
out=FILE                         default: demos/<env>-<task>.npz, and demos/<env>-<task>-demos.npz
noise=0.1                        noise that is added to actions, so that no two rollouts are alike; 0: none
history=3                        observations kept before every example: enough for stacks of one frame more
setup.seed=1                     goals, starts and noise follow from it
force=true                       write over files that exist

Only what succeeds is kept, and the share that did is printed. A demonstration goes on for ten steps after its first
success; an example of a main task is a state inside five or more successive successful steps.

examples:
  medley demos env=metaworld-mt1 env.task=drawer-open examples=200 demos=20
  medley demos env=metaworld-aux env.task=push
  medley demos env=point-aux
  medley demos from=runs/point/state_sac/seed_1 demos=10
"""

EVALUATE = """\
experiment.protocol=mtrl             what counts as success, and how many episodes (see docs/evaluation.md)
experiment.num_eval_episodes=50      episodes per task
experiment.eval_slots_per_task=5     of them side by side
experiment.eval_explore=stochastic   actions drawn from the policy; default: deterministic
experiment.eval_schedule=[reach,grasp,main]
                                     agents with intentions: carry out these one after the other, agent.scheduler.period
                                     steps each, the last to the end; default: every intention by itself
agent.scheduler.period=25            for such a schedule; default: as in training
logger.episodes=true                 a line per episode in episodes.jsonl too; default: for agents with intentions

Written to evaluation_<protocol>_<step>.json in the run folder, with _stochastic and the schedule in its name where they
were asked for. Episodes that are there already are not run again.
"""

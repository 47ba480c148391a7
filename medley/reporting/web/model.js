// What is known, and curves made of it. Nothing here touches the page.

const AXES = [
  { key: "step", name: "environment steps", unit: "step" },
  { key: "frame", name: "frames", unit: "frame" },
  { key: "minute", name: "minutes of training", unit: "minute" },
];
const AVERAGES = { mean, iqm: middleMean };

let data = JSON.parse(byId("data").textContent);
let made = new Map(); // what was computed from `data`, by a key that says what

function once(key, compute) {
  if (!made.has(key)) made.set(key, compute());
  return made.get(key);
}

const metricOf = (key) => data.metrics.find((metric) => metric.key === key);
const isEvaluation = (metric) => metric.of === "evaluation";
const partOf = (run, metric) => (isEvaluation(metric) ? run.eval : run.train);

// All lines of one run: one per task of its group, or a single one.
function linesOf(run, metric) {
  const lines = partOf(run, metric)[metric.key];
  if (!lines || !lines.length) return null;
  return metric.by_task ? lines : [lines];
}

const hasValues = (run, metric) => (linesOf(run, metric) || []).some((line) => line.some((value) => value !== null));

function axisOf(part, axis) {
  const own = part[axis];
  return typeof own === "number" ? part.step.map((step) => step * own) : own || null;
}

const axisKnown = (axis) =>
  Object.values(data.runs).some((run) => [run.eval, run.train].some((part) => part.step.length && axisOf(part, axis)));

// The seeds of a group on common steps, as { steps, runs, lines[seed][task] }; null where there is nothing.
function seedsOf(group, metric) {
  return once(`seeds ${metric.key} ${group.label}`, () => {
    let runs = group.shown.map((id) => data.runs[id]).filter((run) => run && hasValues(run, metric));
    if (!runs.length && !isEvaluation(metric))
      runs = group.runs.map((id) => data.runs[id]).filter((run) => run && hasValues(run, metric));
    if (!runs.length) return null;
    const steps = isEvaluation(metric) ? group.steps : sharedSteps(runs.map((run) => run.train.step));
    if (!steps.length) return null;
    const lines = runs.map((run) => linesOf(run, metric).map((line) => onto(partOf(run, metric).step, line, steps)));
    return { steps, runs, lines };
  });
}

// As it is where the steps are the same: an unknown value then stays unknown.
function onto(own, line, steps) {
  const same = own.length === steps.length && own.every((step, i) => step === steps[i]);
  return same ? Float64Array.from(line, (value) => (value === null ? NaN : value)) : interpolate(own, line, steps);
}

// Training is logged at different steps in every run: those of the finest log, where all of them are.
function sharedSteps(all) {
  const low = Math.max(...all.map((steps) => steps[0]));
  const high = Math.min(...all.map((steps) => steps[steps.length - 1]));
  const inside = all.map((steps) => steps.filter((step) => step >= low && step <= high));
  return inside.reduce((best, steps) => (steps.length > best.length ? steps : best));
}

// Places of the chosen tasks in a group's lists; everything where a metric knows no tasks.
function placesOf(group, metric, tasks, lines) {
  if (!metric.by_task) return [0];
  if (lines.length !== group.tasks.length) return lines.map((_, i) => i); // only averages were kept
  return group.tasks.flatMap((task, i) => (tasks.has(task) ? [i] : []));
}

// Evaluations are whole or unknown; a training log may lack a task for want of a finished episode.
const known = (values, metric) => (isEvaluation(metric) ? values : values.filter((value) => !Number.isNaN(value)));

// The curve of a group: who it is, x, y, the band's ends and the steps; `band` asks for the interval.
function groupCurve(group, metric, axis, tasks, average, band) {
  const found = seedsOf(group, metric);
  if (!found) return null;
  const places = placesOf(group, metric, tasks, found.lines[0]);
  const xs = found.runs.map((run) => axisOf(partOf(run, metric), axis));
  if (!places.length || xs.some((x) => !x)) return null;
  const chosen = found.lines.map((lines) => places.map((place) => lines[place]));
  const flat = chosen.flat();
  const key = `${metric.key} ${group.label} ${average} ${places}`;
  const y = once(`average ${key}`, () =>
    Float64Array.from(found.steps, (_, p) => AVERAGES[average](known(flat.map((line) => line[p]), metric))));
  const at = found.runs.map((run, i) => onto(partOf(run, metric).step, xs[i], found.steps));
  const x = found.steps.map((_, p) => mean(at.map((line) => line[p])));
  const [low, high] = (band && bandOf(group, metric, average, chosen, key)) || [null, null];
  const about = { label: group.label, group: group.label, colour: group.colour, seeds: found.runs.length };
  return { ...about, x, y, low, high, steps: found.steps };
}

// Over all tasks the interval is the report's own; of a choice it is computed here, when there is time for it.
const wanted = new Map();

function bandOf(group, metric, average, chosen, key) {
  if (chosen.length < 2) return null;
  const whole = isEvaluation(metric) && chosen[0].length === group.tasks.length;
  const given = whole && (group.bands[metric.key] || {})[average];
  if (given) return given.map((ends) => Float64Array.from(ends, (end) => (end === null ? NaN : end)));
  if (made.has(`band ${key}`)) return made.get(`band ${key}`);
  wanted.set(`band ${key}`, () => bootstrap(chosen, AVERAGES[average]));
  return null;
}

// Computes wanted intervals for a twentieth of a second; says whether there were any.
function computeBands() {
  const until = performance.now() + 50;
  const any = wanted.size > 0;
  for (const [key, compute] of wanted) {
    wanted.delete(key);
    made.set(key, compute());
    if (performance.now() > until) break;
  }
  return any;
}

// Every run of a group by itself, with all of its own points.
function runCurves(group, metric, axis, tasks) {
  return group.runs.flatMap((id) => {
    const run = data.runs[id];
    const lines = run && linesOf(run, metric);
    const x = lines && axisOf(partOf(run, metric), axis);
    const places = x ? placesOf(group, metric, tasks, lines) : [];
    if (!places.length) return [];
    const y = Float64Array.from(x, (_, p) => {
      const values = places.map((place) => lines[place][p]).map((value) => (value === null ? NaN : value));
      return mean(known(values, metric));
    });
    const about = { label: `${group.label}, seed ${run.seed}`, group: group.label, colour: group.colour, seeds: 1 };
    return [{ ...about, x, y, low: null, high: null, steps: partOf(run, metric).step }];
  });
}

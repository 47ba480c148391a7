// Averages and how sure they are, as medley/reporting/statistics.py makes them.

function mean(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

// The mean of the middle half; a quarter of the values, rounded down, is cut at either end.
function middleMean(values) {
  const sorted = Float64Array.from(values).sort();
  const cut = Math.floor(sorted.length / 4);
  if (Number.isNaN(sorted[sorted.length - 1])) return NaN;
  return mean(sorted.subarray(cut, sorted.length - cut));
}

// Linear between the points, constant beyond the ends; points without a value are passed over.
function interpolate(xs, ys, at) {
  const x = [], y = [];
  for (let i = 0; i < xs.length; i++) if (ys[i] !== null) x.push(xs[i]), y.push(ys[i]);
  const result = new Float64Array(at.length).fill(NaN);
  if (!x.length) return result;
  let i = 0;
  for (let k = 0; k < at.length; k++) {
    while (i < x.length - 1 && x[i + 1] <= at[k]) i++;
    if (at[k] <= x[0]) result[k] = y[0];
    else if (i === x.length - 1 || at[k] === x[i]) result[k] = y[i];
    else result[k] = y[i] + ((y[i + 1] - y[i]) * (at[k] - x[i])) / (x[i + 1] - x[i]);
  }
  return result;
}

// Random numbers that are the same at every drawing, so that bands do not flicker (mulberry32).
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// The 95 % interval of the average at every point of lines[seed][task]. Tasks are strata: every resample draws
// as many seeds as there are, separately for each task, and a drawn seed brings its whole curve. So how often each
// line was drawn is the same at all points, and lines that were put in order once need no sorting again.
function bootstrap(lines, average, samples = 1000) {
  const seeds = lines.length, tasks = lines[0].length;
  const flat = Array.from({ length: tasks * seeds }, (_, i) => lines[i % seeds][Math.floor(i / seeds)]);
  const points = Array.from(flat[0], (_, p) => {
    const order = Array.from(flat.keys()).sort((a, b) => flat[a][p] - flat[b][p]);
    return { order, values: Float64Array.from(order, (i) => flat[i][p]), drawn: new Float64Array(samples) };
  });
  const random = generator(1), times = new Uint16Array(flat.length);
  const cut = average === mean ? 0 : Math.floor(flat.length / 4);
  for (let sample = 0; sample < samples; sample++) {
    times.fill(0);
    for (let i = 0; i < flat.length; i++) times[i - (i % seeds) + Math.floor(random() * seeds)]++;
    for (const { order, values, drawn } of points) drawn[sample] = middleOf(order, values, times, cut);
  }
  const ends = [0, 1].map(() => new Float64Array(points.length).fill(NaN));
  points.forEach(({ values, drawn }, p) => {
    if (values.some(Number.isNaN)) return;
    drawn.sort();
    ends[0][p] = percentile(drawn, 0.025);
    ends[1][p] = percentile(drawn, 0.975);
  });
  return ends;
}

// The mean of values in order, each as often as it was drawn, without `cut` of them at either end.
function middleOf(order, values, times, cut) {
  const last = values.length - cut;
  let sum = 0, place = 0;
  for (let i = 0; i < values.length && place < last; i++) {
    const next = place + times[order[i]];
    const taken = Math.min(next, last) - Math.max(place, cut);
    if (taken > 0) sum += taken * values[i];
    place = next;
  }
  return sum / (last - cut);
}

function percentile(sorted, share) {
  const place = share * (sorted.length - 1), below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

// The mean of every point and its `reach` neighbours on either side: unlike a running average it does not lag.
function smooth(values, reach) {
  if (!reach || !values) return values;
  return Float64Array.from(values, (_, i) => {
    if (!Number.isFinite(values[i])) return NaN;
    const width = Math.min(reach, i, values.length - 1 - i);
    return mean(Array.from(values.slice(i - width, i + width + 1)).filter(Number.isFinite));
  });
}

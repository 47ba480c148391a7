// From numbers to places on the screen and back, and the marks on an axis.

function scale(domain, range, log = false) {
  let [low, high] = domain;
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const slope = (range[1] - range[0]) / (high - low);
  const place = (value) => range[0] + slope * ((log ? Math.log10(value) : value) - low);
  place.inverse = (pixel) => low + (pixel - range[0]) / slope;
  place.domain = [low, high];
  return place;
}

// The lowest and the highest value of all lines with their bands, and some air; shares are shown whole.
function valueRange(view) {
  if (view.share) return [0, 1.02];
  let low = Infinity, high = -Infinity;
  const lines = view.series.flatMap(({ y, low, high }) => (low ? [y, low, high] : [y]));
  for (const value of lines.flatMap((line) => [...line])) {
    if (!Number.isFinite(value) || (view.log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return view.log ? [0.1, 1] : [0, 1];
  if (view.log) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
  const air = 0.04 * (high - low || Math.abs(high) || 1);
  return [low - air, high + air];
}

// Losses that span decades show only their peak on a linear axis.
function suggestsLog(series) {
  let low = Infinity, high = -Infinity;
  for (const value of series.flatMap((line) => [...line.y]).filter(Number.isFinite)) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low > 0 && high > 50 * low;
}

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 2.5, 5, 10].find((factor) => factor * unit >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    found.push(+(k * step).toPrecision(12));
  return found;
}

function decades(low, high) {
  const found = [];
  const wide = high / low > 1000;
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const factor of wide ? [1] : [1, 2, 5]) {
      const value = +(factor * 10 ** power).toPrecision(3);
      if (value >= low && value <= high) found.push(value);
    }
  return found;
}

function nearestPlace(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle;
  }
  return value - sorted[low] <= sorted[high] - value ? low : high;
}

const nearest = (sorted, value) => sorted[nearestPlace(sorted, value)];

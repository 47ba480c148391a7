// Elements are made here. Text goes in as text, never as HTML: names come from files of strangers.

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A line as it is drawn in the chart: colour and dashes of group number `index`.
const COLOURS = 6;
const DASHES = ["", "7 3", "2 2.5", "6 2.5 1.5 2.5"];
const colourOf = (index) => `var(--c${index % COLOURS})`;
const dashOf = (index) => DASHES[Math.floor(index / COLOURS) % DASHES.length];

function swatch(index) {
  const line = makeSvg("line", { x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 2.6, "stroke-dasharray": dashOf(index) });
  line.style.stroke = colourOf(index);
  return makeSvg("svg", { class: "swatch", width: 22, height: 10, "aria-hidden": "true" }, line);
}

// Numbers as people read them.

const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

const plural = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;

function short(value) {
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= unit) return `${+(value / unit).toPrecision(4)}${name}`;
  return `${+value.toPrecision(4)}`;
}

function shown(value, share) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (share) return `${(100 * value).toFixed(1)} %`;
  const size = Math.abs(value);
  if (size >= 1000) return grouped(value, size >= 10000 ? 0 : 1);
  if (size >= 0.01 || size === 0) return `${+value.toPrecision(4)}`;
  return value.toExponential(2);
}

function shownBand(low, high, share) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return "";
  return share ? `[${(100 * low).toFixed(0)}, ${(100 * high).toFixed(0)}]` : `[${shown(low)}, ${shown(high)}]`;
}

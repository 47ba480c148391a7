// The curves of what is chosen: one large chart, its legend, and a small chart for every task.

let mainChart = null;
const smallCharts = new Map(); // by task

const shownGroups = () => data.groups.filter((group) => !choice.hidden.has(group.label));

function seriesOf(groups, tasks, small = false) {
  const metric = metricOf(choice.metric);
  const smoothed = (line) => ({ ...line, y: smooth(line.y, choice.smooth), low: smooth(line.low, choice.smooth),
    high: smooth(line.high, choice.smooth) });
  if (choice.show === "seeds")
    return groups.flatMap((group) => runCurves(group, metric, choice.axis, tasks))
      .map((line) => ({ ...smoothed(line), faint: true }));
  // Many bands in a small chart hide everything.
  const band = !small || groups.length <= 6;
  return groups.map((group) => groupCurve(group, metric, choice.axis, tasks, choice.show, band))
    .filter((line) => line).map(smoothed);
}

function viewOf(series, log) {
  const metric = metricOf(choice.metric);
  const axis = AXES.find((each) => each.key === choice.axis);
  return { series, share: metric.share, log, axis, name: metric.name };
}

function renderCurves() {
  const metric = metricOf(choice.metric);
  const series = seriesOf(shownGroups(), chosenTasks());
  const log = !metric.share && (choice.log === null ? isLoss(metric) && suggestsLog(series) : choice.log);
  const empty = !data.groups.length ? "no run yet" : !shownGroups().length ? "no group is chosen"
    : metric.by_task && !chosenTasks().size ? "no task is chosen" : "nothing is known of this yet";
  mainChart = mainChart || new Chart(byId("chart"));
  mainChart.draw({ ...viewOf(series, log), empty });
  byId("chart").dataset.drawn = series.length;
  renderLegend();
  byId("caption").replaceChildren(captionOf(metric, series, log));
  later("tasks", () => renderTasks(metric, log));
  if (wanted.size) later("bands", improve);
}

const isLoss = (metric) => !isEvaluation(metric) && !/reward/.test(metric.name);

// What takes long comes after the picture, a piece at a time; what was asked for before is forgotten.
const waiting = new Map();

function later(name, work) {
  clearTimeout(waiting.get(name));
  waiting.set(name, setTimeout(work, 0));
}

function improve() {
  if (computeBands()) renderCurves();
}

const allAndNone = (name, disabled = false) => make("span", { class: "both" }, ...["all", "none"].map((which) =>
  make("button", { class: "chip plain", type: "button", [name]: which, disabled }, which)));

// The legend's keys stay the same elements: a double click is one only on an element that is still there.
const legendKeys = new Map();
const bothEnds = allAndNone("data-groups");

function renderLegend() {
  const keys = data.groups.map((group) => {
    if (!legendKeys.has(group.label))
      legendKeys.set(group.label, make("button", { class: "key", type: "button", "data-label": group.label,
        title: "click: hide or show; double click: only this one" }));
    const key = legendKeys.get(group.label);
    const on = !choice.hidden.has(group.label);
    key.setAttribute("aria-pressed", on ? "true" : "false");
    key.replaceChildren(swatch(group.colour), make("span", { class: "who" }, group.label), ...lastValues(group, on));
    return key;
  });
  if (data.groups.length > 2) keys.push(bothEnds);
  renewChildren(byId("legend"), keys);
}

function lastValues(group, on) {
  const metric = metricOf(choice.metric);
  const line = choice.show === "seeds" ? null
    : groupCurve(group, metric, choice.axis, chosenTasks(), choice.show, on);
  const seeds = make("span", { class: "soft" }, plural(line ? line.seeds : group.runs.length, "seed"));
  if (!line) return [seeds];
  const last = line.y.length - 1;
  const band = line.low ? shownBand(line.low[last], line.high[last], metric.share) : "";
  return [seeds, make("b", {}, shown(line.y[last], metric.share)), make("span", { class: "soft" }, band)];
}

// New children in place of old ones, if they are not the same; whoever had the keyboard's focus keeps it.
function renewChildren(host, children) {
  const there = Array.from(host.children);
  if (children.length === there.length && children.every((child, i) => child === there[i])) return;
  const place = Array.from(host.querySelectorAll("button")).indexOf(document.activeElement);
  host.replaceChildren(...children);
  if (place >= 0) (host.querySelectorAll("button")[place] || host).focus();
}

function captionOf(metric, series, log) {
  const tasks = chosenTasks().size;
  const which = data.tasks.length === 1 ? "" : tasks === data.tasks.length ? "all " : "the chosen ";
  const over = metric.by_task ? which + plural(tasks, "task") : "";
  let words = choice.show === "seeds" ? `One line per seed${over ? `, mean over ${over}` : ""}.`
    : `${choice.show === "iqm" ? "Interquartile mean" : "Mean"} over seeds${over ? ` and ${over}` : ""}.`;
  if (series.some((line) => line.low)) words += " Band: 95 % bootstrap interval over seeds (tasks are strata).";
  else if (choice.show !== "seeds" && series.every((line) => line.seeds === 1))
    words += " One seed: no band, for one seed says nothing about others.";
  if (choice.smooth) words += ` Smoothed: each point is the mean of ${2 * choice.smooth + 1}.`;
  if (log) words += " Logarithmic axis.";
  return `${words} Legend: ${choice.show === "seeds" ? "the groups" : "last values"}.`;
}

function renderTasks(metric, log) {
  const host = byId("by-task");
  const tasks = metric.by_task && data.tasks.length > 1 ? [...chosenTasks()] : [];
  host.hidden = byId("by-task-title").hidden = !tasks.length;
  const views = tasks.map((task) => viewOf(seriesOf(shownGroups(), new Set([task]), true), log));
  const range = valueRange(viewOf(views.flatMap((view) => view.series), log));
  const panels = tasks.map((task) => {
    const name = data.tasks[task];
    if (!smallCharts.has(name)) {
      const chart = new Chart(make("div"), true);
      const panel = make("div", { class: "panel small" }, make("h3", {}, name), chart.host);
      smallCharts.set(name, { chart, panel });
    }
    return smallCharts.get(name);
  });
  renewChildren(host, panels.map(({ panel }) => panel));
  panels.forEach(({ chart }, i) => chart.draw({ ...views[i], range, empty: "–" }));
  performance.mark("tasks drawn");
  if (wanted.size) later("bands", improve);
}

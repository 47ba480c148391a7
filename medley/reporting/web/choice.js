// What the reader chose. The address keeps it, so that a view can be shared, and a reload comes back to it.

const choice = {};

function readChoice() {
  const words = new URLSearchParams(location.hash.slice(1));
  const among = (name, values) => (values.includes(words.get(name)) ? words.get(name) : values[0]);
  const metrics = data.metrics.map((metric) => metric.key);
  choice.metric = metrics.includes(words.get("metric")) ? words.get("metric") : firstMetric();
  choice.axis = among("x", AXES.map((axis) => axis.key));
  choice.show = among("show", ["mean", "iqm", "seeds"]);
  choice.smooth = Math.min(20, Math.max(0, Number(words.get("smooth")) || 0));
  choice.log = words.has("log") ? words.get("log") === "1" : null; // null: as the numbers suggest
  choice.hidden = new Set(words.getAll("hide"));
  choice.tasks = words.has("task") ? new Set(words.getAll("task").filter((task) => task)) : null; // null: all
  choice.open = new Set(words.getAll("run"));
  choice.find = words.get("find") || "";
  choice.sort = words.get("sort") || "";
}

// Success, unless nothing is known of it.
function firstMetric() {
  const runs = Object.values(data.runs);
  const known = data.metrics.find((metric) => runs.some((run) => hasValues(run, metric)));
  return (known || data.metrics[0]).key;
}

// By their places in the list of all tasks.
const isChosen = (task) => !choice.tasks || choice.tasks.has(task);
const chosenTasks = () => new Set(data.tasks.flatMap((task, i) => (isChosen(task) ? [i] : [])));

function keepChoice() {
  const words = new URLSearchParams();
  if (choice.metric !== firstMetric()) words.set("metric", choice.metric);
  if (choice.axis !== "step") words.set("x", choice.axis);
  if (choice.show !== "mean") words.set("show", choice.show);
  if (choice.smooth) words.set("smooth", choice.smooth);
  if (choice.log !== null) words.set("log", choice.log ? "1" : "0");
  if (choice.tasks && !choice.tasks.size) words.set("task", "");
  if (choice.tasks) for (const task of choice.tasks) words.append("task", task);
  for (const label of choice.hidden) words.append("hide", label);
  for (const id of choice.open) words.append("run", id);
  if (choice.find) words.set("find", choice.find);
  if (choice.sort) words.set("sort", choice.sort);
  const hash = `${words}`;
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

// What is chosen with: metric, axis, average, smoothing, tasks, groups.

function changed() {
  keepChoice();
  renderCurves();
  renderControls();
  chooseVideos();
}

function choose(words) {
  Object.assign(choice, words);
  changed();
}

function buildControls() {
  const metric = make("select", { id: "metric", onchange: () => choose({ metric: metric.value, log: null }) });
  const axis = make("select", { id: "axis", onchange: () => choose({ axis: axis.value }) });
  const radios = [["mean", "mean"], ["iqm", "IQM"], ["seeds", "seeds"]].map(([value, words]) =>
    make("label", {}, make("input", { type: "radio", name: "show", value, onchange: () => choose({ show: value }) }),
      make("span", {}, words)));
  const reach = make("input", { type: "range", id: "smooth", min: 0, max: 20, step: 1,
    oninput: () => choose({ smooth: Number(reach.value) }) });
  const log = make("input", { type: "checkbox", id: "log", onchange: () => choose({ log: log.checked }) });
  byId("tools").replaceChildren(
    make("label", {}, "Metric ", metric), make("label", {}, "over ", axis),
    make("span", { class: "segments", role: "radiogroup", "aria-label": "average" }, ...radios),
    make("label", {}, "smooth ", reach, make("output", { id: "reach" })), make("label", {}, log, " log"));
  byId("save").addEventListener("click", saveTable);
  byId("tasks").addEventListener("click", (event) => chooseTask(event.target.closest("button")));
  byId("legend").addEventListener("click", (event) => chooseGroup(event.target.closest("button")));
  byId("legend").addEventListener("dblclick", (event) => onlyGroup(event.target.closest("button")));
  const point = (event) => {
    const key = event.target.closest("[aria-pressed=true]");
    mainChart.emphasise(key ? key.dataset.label : undefined);
  };
  byId("legend").addEventListener("pointerover", point);
  byId("legend").addEventListener("focusin", point);
  for (const name of ["pointerleave", "focusout"]) byId("legend").addEventListener(name, () => mainChart.emphasise());
}

function chooseTask(button) {
  if (!button) return;
  const { which, task } = button.dataset;
  const chosen = new Set(choice.tasks || data.tasks);
  if (task !== undefined && !chosen.delete(task)) chosen.add(task);
  if (which) choose({ tasks: which === "all" ? null : new Set() });
  else choose({ tasks: data.tasks.every((name) => chosen.has(name)) ? null : chosen });
}

function chooseGroup(button) {
  if (!button) return;
  const { label, groups } = button.dataset;
  if (groups) choice.hidden = new Set(groups === "all" ? [] : data.groups.map((group) => group.label));
  else if (!choice.hidden.delete(label)) choice.hidden.add(label);
  changed();
}

function onlyGroup(button) {
  if (!button || button.dataset.label === undefined) return;
  const others = data.groups.map((group) => group.label).filter((label) => label !== button.dataset.label);
  choose({ hidden: new Set(others) });
}

// Made anew only when they have changed: a list that is open would close.
function renderLists() {
  const families = new Map();
  for (const metric of data.metrics) {
    if (!families.has(metric.of)) families.set(metric.of, make("optgroup", { label: metric.of }));
    families.get(metric.of).append(make("option", { value: metric.key }, metric.name));
  }
  if (data.left_out.length)
    families.set("left out", make("optgroup", { label: "left out: the page would grow too large" },
      ...data.left_out.map((name) => make("option", { disabled: true }, name.replaceAll("_", " ")))));
  const axes = AXES.map((axis) => make("option", { value: axis.key, disabled: !axisKnown(axis.key) }, axis.name));
  const lists = [[byId("metric"), [...families.values()]], [byId("axis"), axes]];
  for (const [list, items] of lists) {
    const old = Array.from(list.childNodes);
    const same = old.length === items.length && items.every((item, i) => item.isEqualNode(old[i]));
    if (!same) list.replaceChildren(...items);
  }
}

function renderControls() {
  renderLists();
  byId("metric").value = choice.metric;
  byId("axis").value = choice.axis;
  for (const radio of byId("tools").querySelectorAll("[name=show]")) radio.checked = radio.value === choice.show;
  byId("smooth").value = choice.smooth;
  byId("reach").textContent = choice.smooth ? `±${choice.smooth}` : "off";
  byId("log").checked = mainChart.view.log;
  byId("log").disabled = metricOf(choice.metric).share;

  const metric = metricOf(choice.metric);
  const tasks = data.tasks.map((task) => make("button", { class: "chip", type: "button", "data-task": task,
    disabled: !metric.by_task, "aria-pressed": isChosen(task) ? "true" : "false" }, task));
  byId("tasks").hidden = data.tasks.length < 2;
  renewChildren(byId("tasks"), [...tasks, allAndNone("data-which", !metric.by_task)]);
}

// The lines of the chart as a file.
function saveTable() {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const number = (values, i) => (values && Number.isFinite(values[i]) ? values[i] : "");
  const rows = [["line", "step", choice.axis === "step" ? "x" : choice.axis, choice.metric, "low", "high"]];
  for (const { label, steps, x, y, low, high } of mainChart.view.series)
    steps.forEach((step, i) => rows.push([quoted(label), step, x[i], number(y, i), number(low, i), number(high, i)]));
  const text = rows.map((row) => `${row.join(",")}\n`).join("");
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const name = `${choice.metric}_${choice.show}.csv`.replace(/[^\w.-]/g, "_");
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

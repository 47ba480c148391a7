// All runs in a table that can be sorted and searched; a run opens below its row.

const COLUMNS = [
  { key: "run", name: "run", of: (id) => id },
  { key: "group", name: "group", of: (id) => groupName(id) },
  { key: "seed", name: "seed", of: (id) => data.runs[id].seed },
  { key: "status", name: "status", of: (id) => data.runs[id].status },
  { key: "step", name: "last step", of: (id) => data.runs[id].step, number: true },
  { key: "minutes", name: "minutes", of: (id) => data.runs[id].minutes, number: true },
  { key: "success", name: "success", of: (id) => data.runs[id].success, number: true },
  { key: "return", name: "return", of: (id) => data.runs[id].return, number: true },
];
const STATUSES = ["finished", "running", "stopped", "failed"];
const rowsOf = new Map(); // by run: { row, details }

function groupName(id) {
  const names = once("groups of runs", () =>
    new Map(data.groups.flatMap((group) => group.runs.map((run) => [run, group.label]))));
  return names.get(id) || "–";
}

function buildRuns() {
  byId("runs").hidden = false;
  byId("find").value = choice.find;
  byId("find").addEventListener("input", (event) => ((choice.find = event.target.value), keepChoice(), renderRuns()));
  const heads = COLUMNS.map((column) => make("th", { "data-column": column.key },
    make("button", { type: "button", onclick: () => sortBy(column.key) }, column.name)));
  byId("run-table").append(make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  renderRuns();
}

function sortBy(key) {
  choice.sort = choice.sort === key ? `-${key}` : choice.sort === `-${key}` ? "" : key;
  keepChoice();
  renderRuns();
}

// All words must be found: in what the table shows, in the command, or as option=value.
function matches(id, words) {
  const run = data.runs[id];
  const text = `${id} ${groupName(id)} ${run.status} seed ${run.seed} ${run.command}`.toLowerCase();
  return words.every((word) => {
    const [key, value] = word.split("=");
    if (value === undefined || text.includes(word)) return text.includes(word);
    return Object.keys({ ...data.options, ...run.own }).some((name) =>
      name.toLowerCase().endsWith(key) && String(tidy(optionOf(run, name))).toLowerCase().includes(value));
  });
}

function sorted(ids) {
  const column = COLUMNS.find((each) => each.key === choice.sort.replace("-", ""));
  if (!column) return ids;
  const sign = choice.sort.startsWith("-") ? -1 : 1;
  const numeric = new Intl.Collator("en", { numeric: true });
  return [...ids].sort((a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    if (x === null || y === null) return (x === null) - (y === null); // unknown comes last
    return sign * (column.number ? x - y : numeric.compare(x, y));
  });
}

function renderRuns() {
  const words = choice.find.toLowerCase().split(/\s+/).filter((word) => word);
  const found = sorted(data.order.filter((id) => data.runs[id] && matches(id, words)));
  const all = data.order.length;
  byId("found").textContent = words.length ? `${found.length} of ${all}` : plural(all, "run");
  for (const head of byId("run-table").querySelectorAll("th")) {
    const key = head.dataset.column;
    const order = choice.sort === key ? "ascending" : choice.sort === `-${key}` ? "descending" : "none";
    head.setAttribute("aria-sort", order);
  }
  const body = byId("run-table").tBodies[0];
  const wanted = found.flatMap((id) => {
    const parts = rowsOf.get(id) || { row: make("tr"), details: null };
    rowsOf.set(id, parts);
    fillRow(id, parts.row);
    if (choice.open.has(id) && !parts.details)
      parts.details = make("tr", { class: "opened" }, make("td", { colspan: COLUMNS.length }, detailsOf(id)));
    return choice.open.has(id) ? [parts.row, parts.details] : [parts.row];
  });
  // Only what moved is put elsewhere: a video that plays in an opened run goes on.
  let place = body.firstChild;
  for (const row of wanted) {
    if (row === place) place = place.nextSibling;
    else body.insertBefore(row, place);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function fillRow(id, row) {
  const run = data.runs[id];
  if (row.run === run && row.open === choice.open.has(id)) return;
  const focused = row.contains(document.activeElement);
  Object.assign(row, { run, open: choice.open.has(id) });
  row.className = row.open ? "open" : "";
  const badge = make("span", { class: `badge ${STATUSES.includes(run.status) ? run.status : "unknown"}` }, run.status);
  const share = make("td", { class: "bar" }, shown(run.success, true));
  share.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, run.success || 0))}%`);
  const opener = make("button", { type: "button", class: "opener", "aria-expanded": row.open ? "true" : "false",
    "data-run": id, onclick: () => open(id) }, id);
  const step = run.step === null ? "–" : grouped(run.step);
  const minutes = run.minutes === null ? "–" : grouped(run.minutes, 1);
  const cells = [opener, groupName(id), run.seed, badge, step, minutes].map((content) => make("td", {}, content));
  row.replaceChildren(...cells, share, make("td", {}, run.return === null ? "–" : grouped(run.return, 1)));
  if (focused) opener.focus();
}

function open(id) {
  if (!choice.open.delete(id)) choice.open.add(id);
  else rowsOf.get(id).details = null;
  keepChoice();
  renderRuns();
}

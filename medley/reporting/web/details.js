// One run, opened: in what it differs from the others, its command, all of its options, its videos.

const optionOf = (run, key) => (key in run.own ? run.own[key] : data.options[key]);
const hasOptions = (run) => !run.config && Object.keys(data.options).length > 0;
const tidy = (value) => (value === null || value === undefined ? "–" : value);

// How many runs have which value of an option.
function valuesOf(key) {
  return once(`values ${key}`, () => {
    const counts = new Map();
    for (const run of Object.values(data.runs).filter(hasOptions)) {
      const value = tidy(optionOf(run, key));
      counts.set(value, (counts.get(value) || 0) + 1);
    }
    return [...counts].sort((a, b) => b[1] - a[1]);
  });
}

function detailsOf(id) {
  const run = data.runs[id];
  const plain = (value) => (typeof value === "object" ? JSON.stringify(value, null, 1) : value);
  const facts = Object.entries(run.facts).map(([name, value]) => `${name}: ${plain(value)}`);
  return make("div", { class: "run-details" },
    run.problems.length ? make("p", { class: "note" }, `${run.problems.join("; ")}.`) : null,
    make("h3", {}, "Command"), make("pre", { class: "command" }, run.command || "unknown"),
    make("p", { class: "soft" }, run.path),
    ...differences(run), ...videosOf(run), ...configuration(run),
    make("details", {}, make("summary", {}, "Versions and machine"), make("pre", {}, facts.join("\n") || "unknown")));
}

function differences(run) {
  const keys = hasOptions(run) ? Object.keys(data.differing) : [];
  if (!keys.length) return [];
  const rows = keys.map((key) => {
    const own = tidy(optionOf(run, key));
    const others = valuesOf(key).filter(([value]) => value !== own);
    const words = others.slice(0, 5).map(([value, count]) => `${value} (${plural(count, "run")})`);
    if (others.length > 5) words.push(`and ${others.length - 5} more values`);
    const kind = data.differing[key] === "protocol" ? make("span", { class: "badge stopped" }, "protocol") : null;
    return make("tr", { "data-option": key }, make("td", {}, key, kind && " ", kind),
      make("td", {}, make("mark", {}, own)), make("td", {}, words.join(", ")));
  });
  const head = make("tr", {}, ...["option", "this run", "others"].map((name) => make("th", {}, name)));
  const table = make("table", { class: "options differences" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return [make("h3", {}, "Differences from the other runs"), make("div", { class: "scroll" }, table)];
}

function configuration(run) {
  if (!hasOptions(run)) {
    const words = run.config || "no configuration";
    return [make("details", {}, make("summary", {}, "Configuration"), make("pre", {}, words))];
  }
  const box = make("details", { class: "configuration" }, make("summary", {}, "Configuration"));
  // Hundreds of rows: made when they are looked at.
  box.addEventListener("toggle", () => box.childElementCount === 1 && box.append(...optionRows(run)));
  return [box];
}

function optionRows(run) {
  const keys = Object.keys({ ...data.options, ...run.own }).filter((key) => optionOf(run, key) !== null);
  const rows = keys.sort().map((key) => {
    const value = tidy(optionOf(run, key));
    return make("tr", {}, make("td", {}, key), make("td", {}, key in data.differing ? make("mark", {}, value) : value));
  });
  const search = () => {
    const words = find.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
  };
  const find = make("input", { type: "search", placeholder: "find an option", "aria-label": "find an option",
    autocomplete: "off", spellcheck: "false", oninput: search });
  return [make("div", { class: "tools" }, find, make("span", { class: "soft" }, "marked: not the same in all runs")),
    make("div", { class: "scroll tall" }, make("table", { class: "options" }, make("tbody", {}, ...rows)))];
}

function videosOf(run) {
  if (!run.videos.length) return [];
  const clips = run.videos.map((video) =>
    make("figure", {}, movie(video), make("figcaption", {}, `${video.task}, step ${grouped(video.step)}`)));
  return [make("h3", {}, "Videos"), make("div", { class: "clips" }, ...clips)];
}

// A video of its own; what is embedded is in the page once and shown from there.
function movie(video) {
  const source = video.clip ? byId(video.clip).getAttribute("src") : video.href;
  const looks = { controls: true, loop: true, muted: true, playsinline: true, preload: "metadata" };
  return make("video", { ...looks, src: source });
}

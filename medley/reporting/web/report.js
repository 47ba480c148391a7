// The beginning: curves at once, the rest when it has been read; served, fresh data every few seconds.

function start() {
  document.documentElement.classList.add("live");
  byId("curves").hidden = false;
  readChoice();
  buildControls();
  renderCurves();
  renderControls();
  performance.mark("drawn");
  requestAnimationFrame(() => setTimeout(() => performance.mark("painted"), 0));
  addEventListener("hashchange", () => {
    readChoice();
    byId("find").value = choice.find;
    renderCurves();
    renderControls();
    chooseVideos();
    renderRuns();
  });
}

function startRest() {
  buildRuns();
  if (data.served) renderVideos();
  else chooseVideos();
  watchVideos();
  performance.mark("ready");
  if (data.served) setTimeout(ask, 1000 * data.served.every);
}

// What has changed since the last answer: heads anew, and only the runs that are different.
async function ask() {
  const light = byId("light");
  try {
    const answer = await fetch(`data.json?since=${encodeURIComponent(data.version)}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const news = await answer.json();
    if (news.version !== data.version) take(news);
    light.className = "badge running";
    light.textContent = `following, ${new Date().toTimeString().slice(0, 8)}`;
  } catch {
    // A server that is gone may come back: what is on the page stays.
    light.className = "badge failed";
    light.textContent = "no answer, trying again";
  }
  setTimeout(ask, 1000 * data.served.every * (document.hidden ? 5 : 1));
}

function take(news) {
  const before = news.whole ? {} : data.runs;
  data = { ...news, runs: Object.fromEntries(news.order.map((id) => [id, news.runs[id] || before[id]])) };
  made = new Map();
  wanted.clear();
  if (!metricOf(choice.metric)) choice.metric = firstMetric();
  renderHeading();
  renderCurves();
  renderControls();
  for (const id of Object.keys(news.runs)) renewOpened(id);
  renderRuns();
  renderVideos();
}

// An opened run is made anew only for something new in it, or what the reader unfolded would close all the time.
function renewOpened(id) {
  const parts = rowsOf.get(id);
  if (!parts || !parts.details) return;
  if (parts.details.querySelectorAll("video").length !== data.runs[id].videos.length) {
    parts.details.remove();
    parts.details = null;
  }
}

function renderHeading() {
  document.title = byId("title").textContent = data.heading.title;
  const badges = data.heading.badges.map(([kind, words]) => make("span", { class: `badge ${kind}` }, words));
  byId("badges").replaceChildren(...badges.flatMap((badge) => [badge, " "]));
  byId("about").textContent = data.heading.about;
  const notes = data.heading.notes.map((words) => make("p", { class: "note" }, words));
  const more = notes.splice(4);
  if (more.length) notes.push(make("details", {}, make("summary", {}, `${more.length} more notes`), ...more));
  byId("notes").replaceChildren(...notes);
  byId("cards").replaceChildren(...data.heading.cards.map(([what, value, remark]) =>
    make("div", { class: "card" }, make("span", {}, what), make("b", {}, value), make("span", {}, remark))));
}

start();
if (document.readyState === "loading") addEventListener("DOMContentLoaded", startRest);
else startRest();

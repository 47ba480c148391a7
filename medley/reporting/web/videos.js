// The videos at the end of the page: those of chosen groups and tasks; served, new ones as they come.

function chooseVideos() {
  const clips = byId("clips");
  if (!clips) return;
  for (const figure of clips.children) {
    const { group, task } = figure.dataset;
    const known = data.tasks.includes(task);
    figure.hidden = choice.hidden.has(group) || (known && choice.tasks !== null && !choice.tasks.has(task));
  }
}

// Looks into a video when it comes into view, where the page has too many to look into all at once.
function watchVideos() {
  const seen = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      target.preload = "metadata";
      seen.unobserve(target);
    }
  }, { rootMargin: "300px" });
  for (const video of document.querySelectorAll("#clips video[preload=none]")) seen.observe(video);
}

// The newest of every task and group, from the first run that has one; one that plays is left to play.
function renderVideos() {
  const host = byId("clips");
  const newest = new Map();
  for (const group of data.groups)
    for (const id of group.runs)
      for (const video of data.runs[id] ? data.runs[id].videos : []) {
        const key = `${group.label} ${video.task}`;
        if (!newest.has(key)) newest.set(key, { group, video, seed: data.runs[id].seed });
      }
  byId("clips-title").hidden = !newest.size;
  const there = new Map(Array.from(host.children, (figure) => [figure.dataset.key, figure]));
  const figures = [...newest].map(([key, { group, video, seed }]) => {
    const old = there.get(key);
    const playing = old && !old.firstChild.paused;
    if (old && (playing || old.firstChild.getAttribute("src") === video.href)) return old;
    return make("figure", { "data-key": key, "data-group": group.label, "data-task": video.task }, movie(video),
      make("figcaption", {}, `${video.task}, step ${grouped(video.step)}, seed ${seed} (${group.label})`));
  });
  const same = figures.length === host.children.length && figures.every((figure, i) => figure === host.children[i]);
  if (!same) host.replaceChildren(...figures);
  chooseVideos();
}

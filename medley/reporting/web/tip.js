// The box beside the cross-hair: what it points at, and the value of every line there.

const MOST_ROWS = 24;

function tell(chart, rows, at, x) {
  const { view, tip } = chart;
  rows.sort((a, b) => b.y - a.y);
  let left = 0;
  if (rows.length > MOST_ROWS) {
    // Single seeds can be hundreds: those nearest to the pointer.
    const distance = (row) => Math.abs(chart.fy(row.y) - (chart.height ?? 0));
    const near = new Set([...rows].sort((a, b) => distance(a) - distance(b)).slice(0, MOST_ROWS));
    left = rows.length - MOST_ROWS;
    rows = rows.filter((row) => near.has(row));
  }
  const words = view.axis.key === "minute" ? `${+at.toPrecision(4)} minutes` : `${view.axis.unit} ${grouped(at)}`;
  const body = rows.map(({ line, i, y }) => {
    // Where it was not evaluated at this very step; training logs are never quite together.
    const far = Math.abs(line.x[i] - at) > 0.01 * (chart.fx.domain[1] - chart.fx.domain[0]);
    const apart = far ? ` at ${short(line.x[i])}` : "";
    const band = line.low ? shownBand(line.low[i], line.high[i], view.share) : "";
    return make("tr", {}, make("td", {}, swatch(line.colour), make("span", { class: "who" }, line.label)),
      make("td", { class: "value" }, shown(y, view.share)), make("td", { class: "soft" }, `${band}${apart}`));
  });
  tip.replaceChildren(make("b", {}, words), make("table", {}, make("tbody", {}, ...body)));
  if (left) tip.append(make("p", { class: "soft" }, `and ${left} more`));
  tip.hidden = false;
  // Beside the line, on the side that has room; never beyond the window.
  const width = tip.offsetWidth, room = chart.host.clientWidth;
  const beside = x + 14 + width <= room ? x + 14 : x - 14 - width;
  tip.style.left = `${Math.max(-4, Math.min(beside, room - width + 4))}px`;
  tip.style.top = `${chart.small ? chart.size.height : chart.size.top + 4}px`;
}

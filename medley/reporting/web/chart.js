// One chart: lines with bands in SVG, and a cross-hair that says all values at a point.

const LARGE = { left: 52, right: 22, top: 10, bottom: 40, height: 380 };
const SMALL = { left: 34, right: 14, top: 6, bottom: 22, height: 150 };

class Chart {
  constructor(host, small = false) {
    Object.assign(this, { host, small, at: null });
    host.classList.add("chart");
    host.tabIndex = 0;
    this.tip = make("div", { class: "tip", role: "status", hidden: true });
    host.addEventListener("pointermove", (event) => this.point(event));
    host.addEventListener("pointerdown", (event) => this.point(event));
    host.addEventListener("pointerleave", () => this.leave());
    host.addEventListener("blur", () => this.leave());
    host.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.view && host.clientWidth !== this.width && this.draw(this.view)).observe(host);
  }

  // `view`: { series, share, log, axis, name, range }, all series in the order in which they are drawn.
  draw(view) {
    this.view = view;
    this.width = this.host.clientWidth;
    // On a telephone a chart as high as on a desk would fill the screen.
    this.size = this.small ? SMALL : { ...LARGE, height: this.width < 500 ? 290 : LARGE.height };
    const { left, right, top, bottom, height } = this.size;
    const xs = view.series.map((line) => line.x).filter((x) => x.length);
    const [low, high] = view.range || valueRange(view);
    this.fx = scale([Math.min(...xs.map((x) => x[0])), Math.max(...xs.map((x) => x[x.length - 1]))],
      [left, this.width - right]);
    this.fy = scale(view.log ? [Math.log10(low), Math.log10(high)] : [low, high], [height - bottom, top], view.log);
    this.stops = [...new Set(xs.flatMap((x) => Array.from(x)))].sort((a, b) => a - b);
    this.lines = makeSvg("g");
    // Bands first, or those of later groups would dull the lines of earlier ones.
    for (const line of view.series) if (line.low) this.drawBand(line);
    for (const line of view.series) this.drawLine(line);
    this.cross = makeSvg("g", { class: "cross" });
    const svg = makeSvg("svg", { width: this.width, height, "aria-hidden": "true" },
      this.axes(low, high), this.lines, this.cross);
    const words = `${view.name} over ${view.axis.name}, ${view.series.length} lines; arrow keys read the points`;
    this.host.setAttribute("role", "img");
    this.host.setAttribute("aria-label", words);
    this.host.replaceChildren(svg, this.tip);
    if (!view.series.length) this.host.append(make("p", { class: "nothing soft" }, view.empty || "nothing to show"));
    if (this.at !== null && this.stops.length) this.show(this.at);
    else this.leave();
  }

  drawBand(line) {
    const band = makeSvg("path", { class: "band", d: bandPath(line, this.fx, this.fy), "data-group": line.group });
    band.style.fill = colourOf(line.colour);
    // The more bands lie on each other, the fainter each.
    band.style.opacity = `calc(var(--band) * ${Math.min(1, 5 / this.view.series.length)})`;
    this.lines.append(band);
  }

  drawLine(line) {
    const { fx, fy } = this;
    const path = makeSvg("path", { class: "line", d: linePath(line, fx, fy), "stroke-dasharray": dashOf(line.colour) });
    path.style.stroke = colourOf(line.colour);
    Object.assign(path.dataset, { label: line.label, group: line.group });
    if (line.faint) path.classList.add("faint");
    this.lines.append(path);
    if (line.x.length > 12 || line.faint) return;
    // Few points would look like a trend: show the points themselves.
    line.x.forEach((x, i) => {
      if (!Number.isFinite(line.y[i])) return;
      const dot = makeSvg("circle", { cx: fx(x), cy: fy(line.y[i]), r: this.small ? 1.8 : 3 });
      dot.style.fill = colourOf(line.colour);
      this.lines.append(dot);
    });
  }

  axes(low, high) {
    const { left, right, top, bottom, height } = this.size;
    const { view, fx, fy, width } = this;
    const group = makeSvg("g", { class: "axes" });
    if (!this.stops.length) return group;
    for (const value of view.log ? decades(low, high) : ticks(low, high, this.small ? 3 : 5)) {
      const y = fy(value);
      group.append(makeSvg("line", { x1: left, x2: width - right, y1: y, y2: y }));
      const words = view.share ? `${+(100 * value).toPrecision(3)}${this.small ? "" : " %"}` : short(value);
      group.append(makeSvg("text", { x: left - 6, y: y + 3.5, "text-anchor": "end" }, words));
    }
    const [first, last] = fx.domain;
    for (const value of ticks(first, last, Math.max(2, Math.floor(width / (this.small ? 80 : 110))))) {
      const x = fx(value);
      group.append(makeSvg("line", { x1: x, x2: x, y1: top, y2: height - bottom }));
      group.append(makeSvg("text", { x, y: height - bottom + 15, "text-anchor": "middle" }, short(value)));
    }
    const middle = { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle" };
    if (!this.small) group.append(makeSvg("text", middle, view.axis.name));
    return group;
  }

  // One group before all others; none: all alike.
  emphasise(group) {
    for (const path of this.lines.querySelectorAll("path")) {
      const other = group !== undefined && path.dataset.group !== group;
      path.classList.toggle("other", other);
      path.classList.toggle("first", group !== undefined && !other);
    }
  }

  point(event) {
    if (!this.stops || !this.stops.length) return;
    const box = this.host.getBoundingClientRect();
    this.height = event.clientY - box.top;
    this.show(nearest(this.stops, this.fx.inverse(event.clientX - box.left)));
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return this.leave();
    if (!(event.key in moves) || !this.stops.length) return;
    event.preventDefault();
    const from = this.at === null ? (moves[event.key] > 0 ? -1 : this.stops.length) : nearestPlace(this.stops, this.at);
    this.height = null;
    this.show(this.stops[Math.min(this.stops.length - 1, Math.max(0, from + moves[event.key]))]);
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    if (this.cross) this.cross.replaceChildren();
  }

  show(at) {
    this.at = at;
    const { fx, fy, size, view } = this;
    const x = fx(at);
    this.cross.replaceChildren(makeSvg("line", { x1: x, x2: x, y1: size.top, y2: size.height - size.bottom }));
    const rows = view.series.flatMap((line) => {
      const last = line.x.length - 1;
      // The nearest point of a line, but none where the line has ended or not begun.
      const i = last < 0 || at < line.x[0] || at > line.x[last] ? -1 : nearestPlace(line.x, at);
      return i < 0 || !Number.isFinite(line.y[i]) ? [] : [{ line, i, y: line.y[i] }];
    });
    for (const { line, i, y } of rows) {
      const dot = makeSvg("circle", { cx: fx(line.x[i]), cy: fy(y), r: this.small ? 2.5 : 4 });
      dot.style.fill = colourOf(line.colour);
      this.cross.append(dot);
    }
    tell(this, rows, at, x);
  }
}

// On a logarithmic axis what is not positive has no place, and leaves a gap.
function linePath(line, fx, fy) {
  let d = "", pen = "M";
  for (let i = 0; i < line.x.length; i++) {
    const y = fy(line.y[i]);
    if (!Number.isFinite(y)) pen = "M";
    else (d += `${pen}${fx(line.x[i]).toFixed(1)} ${y.toFixed(1)}`), (pen = "L");
  }
  return d;
}

function bandPath(line, fx, fy) {
  const known = (i) => Number.isFinite(fy(line.low[i])) && Number.isFinite(fy(line.high[i]));
  const places = Array.from(line.x.keys()).filter(known);
  const corner = (values) => (i) => `${fx(line.x[i]).toFixed(1)} ${fy(values[i]).toFixed(1)}`;
  const corners = [...places.map(corner(line.high)), ...places.reverse().map(corner(line.low))];
  return corners.length ? `M${corners.join("L")}Z` : "";
}

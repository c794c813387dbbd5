// Lines over the last five minutes.

import { el, say, svg } from "./format.js";

const SECONDS = 300;
const HEIGHT = 170;
const MARGIN = { left: 64, right: 8, top: 8, bottom: 18 };
const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
// Between two points that are further apart there was nothing to see.
const GAP_MS = 3500;

// A chart of several series of points [time in ms, value or null].
export class Chart {
  constructor(title, format, options = {}) {
    this.format = format;
    this.isLog = options.isLog ?? false;
    this.least = options.least ?? 1;
    this.isBinary = options.isBinary ?? false;
    this.legend = el("ul");
    this.drawing = svg("svg", { role: "img", "aria-label": title });
    this.element = el("div", { class: "chart" }, el("h3", {}, title), this.drawing, this.legend);
    this.series = [];
    this.now = 0;
    this.pointed = null;
    this.drawing.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.drawing.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(series, now) {
    this.series = series.slice(0, COLORS.length);
    this.now = now;
    this.draw();
  }

  point(x) {
    this.pointed = x;
    this.draw();
  }

  draw() {
    const width = this.drawing.clientWidth;
    if (width === 0) return;
    const scale = this.scale(width);
    const parts = [...this.axes(scale, width)];
    for (const [place, series] of this.series.entries()) {
      const color = `var(${COLORS[place]})`;
      const pieces = this.pieces(series.points, scale);
      if (place === 0 && !this.isLog) parts.push(area(pieces, color, scale));
      const line = svg("path", { class: "line", d: pieces.map(path).join("") });
      line.style.stroke = color;
      parts.push(line);
    }
    const time = this.pointed === null ? null : scale.timeAt(this.pointed);
    if (time !== null) {
      const x = scale.x(time);
      const ends = { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom };
      parts.push(svg("line", { class: "cross", ...ends }));
    }
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.replaceChildren(...parts);
    this.explain(time);
  }

  // Names and values: of now, or of the time that is pointed at.
  explain(time) {
    while (this.legend.children.length > this.series.length) this.legend.lastChild.remove();
    for (const [place, { name, points }] of this.series.entries()) {
      let item = this.legend.children[place];
      if (!item) {
        item = el("li", {}, el("span"), el("b"));
        item.style.setProperty("--color", `var(${COLORS[place]})`);
        this.legend.append(item);
      }
      const [label, value] = item.children;
      say(label, name);
      item.title = name;
      say(value, this.format(valueAt(points, time ?? this.now)));
    }
  }

  scale(width) {
    const values = this.series.flatMap(({ points }) => points.map(([, value]) => value))
      .filter((value) => value !== null && value !== undefined && (!this.isLog || value > 0));
    const most = values.reduce((one, other) => Math.max(one, other), 0);
    const top = Math.max(most, this.least);
    const unit = this.isBinary ? 1024 ** Math.floor(Math.log2(top) / 10) : 1;
    const ticks = this.isLog ? decades(values) : steps(top / unit).map((tick) => tick * unit);
    const [low, high] = [ticks[0], ticks.at(-1)];
    const of = this.isLog ? Math.log10 : (value) => value;
    const [bottom, height] = [HEIGHT - MARGIN.bottom, HEIGHT - MARGIN.top - MARGIN.bottom];
    const span = width - MARGIN.left - MARGIN.right;
    return {
      ticks,
      bottom,
      x: (time) => MARGIN.left + span * (1 - (this.now - time) / (SECONDS * 1000)),
      y: (value) => bottom - height * (of(Math.max(value, low)) - of(low)) / (of(high) - of(low)),
      timeAt: (x) => {
        const part = Math.min(1, Math.max(0, (x - MARGIN.left) / span));
        return this.now - (1 - part) * SECONDS * 1000;
      },
    };
  }

  *axes({ ticks, x, y, bottom }, width) {
    for (const tick of ticks) {
      const at = y(tick);
      const ends = { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at };
      yield svg("line", { class: "grid", ...ends });
      const place = { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" };
      yield svg("text", place, round(this.format(tick)));
    }
    for (const minutes of [4, 3, 2, 1, 0]) {
      const anchor = minutes === 0 ? "end" : "middle";
      const place = { x: x(this.now - minutes * 60_000), y: bottom + 14, "text-anchor": anchor };
      yield svg("text", place, minutes === 0 ? "now" : `−${minutes} min`);
    }
  }

  // Points without gaps, on the drawing.
  pieces(points, { x, y }) {
    const pieces = [];
    let last = null;
    for (const [time, value] of points) {
      const isShown = value !== null && value !== undefined && this.now - time <= SECONDS * 1000;
      if (!isShown) {
        last = null;
        continue;
      }
      if (last === null || time - last > GAP_MS) pieces.push([]);
      pieces.at(-1).push([x(time), y(value)]);
      last = time;
    }
    return pieces;
  }
}

// A small line without axes.
export function spark(points, now) {
  const shown = points.filter(([time, value]) => now - time < 60_000 && value !== null);
  const most = Math.max(1e-9, ...shown.map(([, value]) => value));
  const at = ([time, value]) => [100 - (now - time) / 600, 39 - 36 * value / most];
  const drawing = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none" });
  const line = svg("path", { d: path(shown.map(at)), fill: "none", "stroke-width": "1.5" });
  line.setAttribute("vector-effect", "non-scaling-stroke");
  line.style.stroke = "var(--c1)";
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(line);
  return drawing;
}

function path(points) {
  const place = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  // A point alone is a dot.
  if (points.length === 1) return `M${place(points[0])}h1`;
  return points.map((point, index) => `${index === 0 ? "M" : "L"}${place(point)}`).join("");
}

function area(pieces, color, { bottom }) {
  const closed = pieces.filter((piece) => piece.length > 1).map((piece) =>
    `${path(piece)}L${piece.at(-1)[0].toFixed(1)} ${bottom}L${piece[0][0].toFixed(1)} ${bottom}Z`);
  const shape = svg("path", { class: "area", d: closed.join("") });
  shape.style.fill = color;
  return shape;
}

function valueAt(points, time) {
  let best = null;
  for (const point of points) {
    if (Math.abs(point[0] - time) <= GAP_MS
      && (best === null || Math.abs(point[0] - time) <= Math.abs(best[0] - time))) best = point;
  }
  return best?.[1] ?? null;
}

// Without zeros that say nothing: "10.0 ms" is "10 ms".
function round(text) {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

// Round numbers from 0 to what is at least `most`.
function steps(most) {
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [0];
  while (ticks.at(-1) < most * 0.999) ticks.push(step * ticks.length);
  return ticks;
}

// Powers of ten around the values.
function decades(values) {
  const low = values.reduce((one, other) => Math.min(one, other), Infinity);
  const high = values.reduce((one, other) => Math.max(one, other), 0);
  if (high === 0) return [1e3, 1e4, 1e5];
  const from = Math.floor(Math.log10(low));
  const to = Math.max(from + 1, Math.ceil(Math.log10(high)));
  return Array.from({ length: to - from + 1 }, (_, index) => 10 ** (from + index));
}

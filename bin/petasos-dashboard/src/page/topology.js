// Who calls whom: applications, the services between them, and other hosts, in columns.
//
// It is drawn from what is counted: an application's calls by method and way. Which of several
// servers of a service a caller reaches is not counted, so the service stands between them.

import { el, number, rate, say, svg } from "./format.js";
import { known, measured, nameOf, newest } from "./state.js";

const SIZE = { application: [164, 46], host: [104, 40], service: [148, 42] };
const ROW_GAP = 16;
const COLUMN_GAP = 56;
// So much smaller than usual it may be before it has to be scrolled.
const SCALE_MIN = 0.72;
const NODES_MAX = 60;

export function drawTopology(place, note) {
  const { nodes, edges, leftOut } = graph();
  say(note, `${leftOut} applications and services more are not drawn.`);
  note.hidden = leftOut === 0;
  if (nodes.length === 0) {
    place.replaceChildren(el("p", { class: "none" }, "No application is attached."));
    return;
  }
  const columns = ordered(layered(nodes, edges), edges);
  const [width, height] = placed(columns, place.clientWidth);
  const scale = Math.min(1, Math.max(SCALE_MIN, place.clientWidth / width));
  const drawing = svg("svg", {
    class: "topology", role: "img", viewBox: `0 0 ${width} ${height}`,
    width: Math.floor(width * scale), height: Math.ceil(height * scale),
    "aria-label": edges.map(({ from, to }) => `${from.label} to ${to.label}`).join(", "),
  });
  drawing.append(...edges.map(edgeDrawn), ...nodes.map(nodeDrawn));
  place.replaceChildren(drawing);
}

// Nodes and edges of what was ever called, with what is called now.
function graph() {
  const nodes = new Map();
  const edges = new Map();
  const node = (id, kind, label) => {
    if (!nodes.has(id)) nodes.set(id, { id, kind, label, unsent: 0, weight: 0, rate: 0 });
    return nodes.get(id);
  };
  const edge = (from, to, now, begun) => {
    const key = `${from.id}→${to.id}`;
    if (!edges.has(key)) edges.set(key, { from, to, begun: 0, failed: 0, weight: 0 });
    const of = edges.get(key);
    of.begun += now.begun;
    of.failed += now.failed;
    of.weight += begun;
    if (to.kind === "service") to.rate += now.begun;
    from.weight += begun;
    to.weight += begun;
  };
  const overview = known.overview;
  const busy = new Map((newest()?.calls ?? []).map(([of, method, way, ...values]) =>
    [`${of} ${way} ${method}`, measured(values)]));
  const idle = { begun: 0, failed: 0 };
  for (const { number: of, serves } of overview?.applications ?? []) {
    node(`a${of}`, "application", nameOf(of)).serves = serves;
  }
  for (const { number: of, method, way, begun } of overview?.calls ?? []) {
    const now = busy.get(`${of} ${way} ${method ?? "(others)"}`) ?? idle;
    const application = node(`a${of}`, "application", nameOf(of));
    const name = (method ?? "(others)").split("/")[0];
    if (way === "unsent") {
      application.unsent += now.failed;
    } else if (way === "to-local") {
      edge(application, node(`s${name}`, "service", name), now, begun);
    } else if (way === "to-remote") {
      const service = node(`o${name}`, "service", name);
      edge(application, service, now, begun);
      edge(service, node("out", "host", "other hosts"), now, begun);
    } else {
      const service = node(`s${name}`, "service", name);
      edge(service, application, now, begun);
      if (way === "from-remote") edge(node("in", "host", "other hosts"), service, now, begun);
    }
  }
  const kept = [...nodes.values()].sort((one, other) => other.weight - one.weight);
  const drawn = new Set(kept.slice(0, NODES_MAX));
  return {
    nodes: [...drawn],
    edges: [...edges.values()].filter(({ from, to }) => drawn.has(from) && drawn.has(to)),
    leftOut: kept.length - drawn.size,
  };
}

// Gives each node a column behind those that lead to it. Edges that close a circle lead back.
function layered(nodes, edges) {
  const into = new Map(nodes.map((one) => [one, []]));
  edges.forEach(({ from, to }) => into.get(to).push(from));
  const begun = new Set();
  const column = (one) => {
    if (one.column !== undefined) return one.column;
    begun.add(one);
    const before = into.get(one).filter((from) => from.column !== undefined || !begun.has(from));
    const last = before.map(column).reduce((most, of) => Math.max(most, of), -1);
    one.column = last + 1;
    return one.column;
  };
  [...nodes].sort((one, other) => one.id.localeCompare(other.id)).forEach(column);
  // Who is called by nobody stands right before whom it calls.
  for (const one of nodes) {
    const next = edges.filter(({ from }) => from === one).map(({ to }) => to.column);
    if (into.get(one).length === 0 && next.length > 0) {
      one.column = Math.max(one.column, Math.min(...next) - 1);
    }
  }
  const columns = [];
  nodes.forEach((one) => (columns[one.column] ??= []).push(one));
  return Array.from(columns, (column) => column ?? []);
}

// Orders columns so that few edges cross: each node goes where its neighbours are.
function ordered(columns, edges) {
  const byName = (one, other) => one.label.localeCompare(other.label)
    || one.id.localeCompare(other.id);
  columns.forEach((column) => column.sort(byName));
  const rank = () => columns.forEach((column) =>
    column.forEach((one, index) => { one.rank = (index + 1) / (column.length + 1); }));
  rank();
  for (let turn = 0; turn < 6; turn += 1) {
    for (const column of columns) {
      for (const one of column) {
        const near = edges.flatMap(({ from, to }) =>
          from === one ? [to.rank] : to === one ? [from.rank] : []);
        if (near.length > 0) one.pull = near.reduce((sum, of) => sum + of, 0) / near.length;
      }
      column.sort((one, other) =>
        (one.pull ?? one.rank) - (other.pull ?? other.rank) || byName(one, other));
      rank();
    }
  }
  return columns;
}

// Gives each node its place; returns the size of all.
function placed(columns, room) {
  const widths = columns.map((column) => Math.max(0, ...column.map(({ kind }) => SIZE[kind][0])));
  const heights = columns.map((column) =>
    column.reduce((sum, { kind }) => sum + SIZE[kind][1] + ROW_GAP, ROW_GAP));
  const height = Math.max(...heights);
  const used = widths.reduce((sum, width) => sum + width, 4);
  const spare = (room - used) / Math.max(1, columns.length - 1);
  const gap = Math.min(190, Math.max(COLUMN_GAP, spare));
  let x = 2;
  for (const [index, column] of columns.entries()) {
    let y = (height - heights[index]) / 2 + ROW_GAP;
    for (const one of column) {
      const [width, tall] = SIZE[one.kind];
      Object.assign(one, { x: x + (widths[index] - width) / 2, y, width, tall });
      y += tall + ROW_GAP;
    }
    x += widths[index] + gap;
  }
  return [Math.ceil(x - gap + 2), Math.ceil(height)];
}

function edgeDrawn({ from, to, begun, failed }) {
  const [x1, y1] = [from.x + from.width, from.y + from.tall / 2];
  const [x2, y2] = [to.x, to.y + to.tall / 2];
  const bend = Math.max(30, Math.abs(x2 - x1) / 2);
  const state = begun === 0 ? "" : failed > begun / 100 ? " is-bad" : " is-busy";
  const line = svg("path", {
    class: `edge${state}`,
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
    "stroke-width": (1.3 + Math.log10(1 + begun) * 0.9).toFixed(2),
  });
  const told = `${from.label} → ${to.label}: ${rate(begun)}, ${rate(failed)} failed`;
  line.append(svg("title", {}, told));
  return line;
}

function nodeDrawn(one) {
  const { kind, label, x, y, width, tall } = one;
  const group = svg("g", {}, svg("title", {}, told(one)));
  const radius = kind === "service" ? tall / 2 : 8;
  const shape = { x, y, width, height: tall, rx: radius, class: `box ${kind}` };
  group.append(svg("rect", shape));
  const middle = { x: x + width / 2, "text-anchor": "middle" };
  const below = beneath(one);
  const line = { ...middle, y: y + (below === null ? tall / 2 + 4 : tall / 2 - 4), class: "title" };
  group.append(svg("text", line, short(label, kind === "service" ? 19 : 21)));
  if (below !== null) {
    const attributes = { ...middle, y: y + tall / 2 + 13, class: one.unsent > 0 ? "bad" : null };
    group.append(svg("text", attributes, short(below, 26)));
  }
  return group;
}

function beneath({ kind, unsent, serves, rate: called }) {
  if (kind === "host") return null;
  if (kind === "service") return rate(called);
  if (unsent > 0) return `${rate(unsent)} went nowhere`;
  if (serves?.length > 0) return `serves ${serves.join(", ")}`;
  return "serves nothing";
}

function told({ kind, label, serves }) {
  if (kind !== "application") return label;
  const list = serves?.length > 0 ? serves.join(", ") : "nothing";
  return `${label}: serves ${list} (${number(serves?.length ?? 0)})`;
}

function short(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

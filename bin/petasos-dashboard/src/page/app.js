// The page of the service: draws what is known of it.

import { Chart, spark } from "./charts.js";
import { byteRate, count, duration, el, number, percent, rate } from "./format.js";
import { by, fillSelect, start } from "./shell.js";
import { known, measured, nameOf, newest, rowKey } from "./state.js";
import { drawApplications, drawAudit, drawDatapaths, drawMethods, drawPolicies } from "./tables.js";
import { drawTopology } from "./topology.js";

// Whose calls the charts show; null for all.
const focus = { application: null, method: null };

const charts = {
  begun: new Chart("Calls per second", number),
  latency: new Chart("Latency", duration, { isLog: true }),
  failed: new Chart("Failed per second", number),
  underWay: new Chart("Calls under way", number),
  bytes: new Chart("Bytes per second", byteRate, { isBinary: true, least: 1024 }),
  load: new Chart("Engines' load, of one processor", percent, { least: 0.001 }),
};

function draw() {
  drawTiles();
  drawTopology(by("topology-drawing"), by("topology-note"));
  drawFocus();
  drawCharts();
  drawMethods(by("methods-table"), by("methods-note"), choose);
  drawDatapaths(by("datapaths-list"));
  drawPolicies(by("policies-table"), by("policies-file"));
  drawApplications(by("applications-table"), by("quotas-table"));
  drawAudit(by("audit-table"));
}

function drawTiles() {
  const now = newest();
  const { begun, failed, underWay, p50, p99 } = measured(now?.all ?? []);
  const end = known.frames.at(-1)?.time_ms ?? 0;
  const line = (of) => spark(known.frames.map((frame) =>
    [frame.time_ms, measured(frame.all)[of]]), end);
  const tiles = [
    ["applications", count(known.overview.applications.length), null],
    ["calls", rate(begun), line("begun")],
    ["failed", rate(failed), line("failed")],
    ["under way", count(underWay), line("underWay")],
    ["p50 of latency", duration(p50), line("p50")],
    ["p99 of latency", duration(p99), line("p99")],
  ];
  by("tiles").replaceChildren(...tiles.map(([name, value, drawing]) => {
    const kind = name === "failed" && failed > 0 ? "card tile is-bad" : "card tile";
    return el("div", { class: kind, "data-tile": name }, el("div", { class: "name" }, name),
      el("div", { class: "value" }, value), drawing);
  }));
}

function drawFocus() {
  const applications = known.overview.applications.map((one) =>
    [String(one.number), nameOf(one.number)]);
  const methods = new Set(known.overview.calls
    .filter((row) => focus.application === null || row.number === focus.application)
    .map((row) => row.method ?? "(others)"));
  if (focus.method !== null) methods.add(focus.method);
  fillSelect(by("focus-application"), [["", "all"], ...applications],
    focus.application === null ? "" : String(focus.application));
  fillSelect(by("focus-method"), [["", "all"], ...[...methods].sort().map((one) => [one, one])],
    focus.method ?? "");
}

function choose(application, method) {
  Object.assign(focus, { application, method });
  drawFocus();
  drawCharts();
  by("charts").scrollIntoView();
}

function drawCharts() {
  const end = known.frames.at(-1)?.time_ms ?? 0;
  const lines = chosenLines();
  const series = (of) => lines.map(({ name, points }) => (
    { name, points: points.map(([time, row]) => [time, row === null ? null : row[of]]) }));
  for (const of of ["begun", "failed", "underWay", "bytes"]) charts[of].show(series(of), end);
  const latency = lines.slice(0, 2).flatMap(({ name, points }) => ["p50", "p99"].map((of) => (
    { name: `${name} ${of}`, points: points.map(([time, row]) => [time, row?.[of] ?? null]) })));
  charts.latency.show(latency, end);
  charts.load.show(engineLines(), end);
}

// What the charts show: lines of { name, points: [time, values or null] }.
function chosenLines() {
  const { application, method } = focus;
  if (method !== null) {
    return rowLines((of, name) => name === method && (application ?? of) === of, 6);
  }
  if (application !== null) {
    return ["makes", "serves"].map((side) => line(side, (frame) =>
      frame.applications.find(([of, at]) => of === application && at === side)?.slice(2)))
      .filter(({ points }) => points.some(([, row]) => row.begun > 0 || row.underWay > 0));
  }
  const all = line("all", (frame) => frame.all);
  return [all, ...rowLines((of, name, way) => way !== "from-local", 4)];
}

// The rows that were called most in the last minutes, of those that `isMeant`.
function rowLines(isMeant, most) {
  const sums = new Map();
  for (const frame of known.frames) {
    for (const [of, method, way, begun] of frame.calls) {
      if (!isMeant(of, method, way)) continue;
      const key = rowKey(of, method, way);
      const sum = sums.get(key) ?? { of, method, way, begun: 0 };
      sum.begun += begun + 1e-9;
      sums.set(key, sum);
    }
  }
  const rows = [...sums.values()].sort((one, other) => other.begun - one.begun).slice(0, most);
  return rows.map(({ of, method, way }) => {
    // The way is said if there are several.
    const isAlone = rows.filter((row) => row.of === of && row.method === method).length === 1;
    const name = `${nameOf(of)} ${method}${isAlone ? "" : ` ${way}`}`;
    return line(name, (frame) =>
      frame.calls.find((row) => row[0] === of && row[1] === method && row[2] === way)?.slice(3));
  });
}

// Who is not in a frame was not called then.
const NOTHING = [0, 0, 0, null, null, 0];

function line(name, of) {
  return { name, points: known.frames.map((frame) =>
    [frame.time_ms, measured(of(frame) ?? NOTHING)]) };
}

function engineLines() {
  const sums = new Map();
  for (const frame of known.frames) {
    for (const [of, place, kind, items] of frame.engines) {
      if (focus.application !== null && of !== focus.application) continue;
      const key = `${of} ${place} ${kind}`;
      const sum = sums.get(key) ?? { of, place, kind, items: 0 };
      sum.items += items;
      sums.set(key, sum);
    }
  }
  // Few items are measured: in a second without any, an item costs what it did on average.
  const costs = new Map(known.overview.engines.map(({ number: of, place, kind, item_ns: cost }) =>
    [`${of} ${place} ${kind}`, cost]));
  const load = ({ of, place, kind }, row) =>
    row[6] ?? row[3] * (costs.get(`${of} ${place} ${kind}`) ?? NaN) / 1e9;
  const engines = [...sums.values()].sort((one, other) => other.items - one.items).slice(0, 6);
  return engines.map((engine) => ({
    name: `${nameOf(engine.of)} ${engine.kind}`,
    points: known.frames.map((frame) => {
      const row = frame.engines.find(([of, place, kind]) =>
        of === engine.of && place === engine.place && kind === engine.kind);
      const value = row === undefined ? 0 : load(engine, row);
      return [frame.time_ms, Number.isNaN(value) ? null : value];
    }),
  }));
}

by("focus-application").addEventListener("change", ({ target }) => {
  focus.application = target.value === "" ? null : Number(target.value);
  draw();
});
by("focus-method").addEventListener("change", ({ target }) => {
  focus.method = target.value === "" ? null : target.value;
  draw();
});
by("charts-drawing").append(...Object.values(charts).map((chart) => chart.element));
start("/api/state", "service", draw);

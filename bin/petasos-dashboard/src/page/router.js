// The page of a router: draws what is known of its groups and workers.

import { Chart, spark } from "./charts.js";
import { bytes, count, duration, el, number, rate, say } from "./format.js";
import { by, fillSelect, start } from "./shell.js";
import { known, newest } from "./state.js";
import { fillTable, meter, once } from "./tables.js";

// Whose charts are shown; null for all groups.
let focus = null;

const charts = {
  given: new Chart("Requests given to workers per second", number),
  waiting: new Chart("Requests that wait", number),
  outstanding: new Chart("Requests that workers have", number),
  rejected: new Chart("Rejections per second", number),
  workerGiven: new Chart("Given per second, by worker", number),
  workerOutstanding: new Chart("Outstanding, by worker", number),
};

function draw() {
  const rows = new Map((newest()?.workers ?? []).map((row) => [`${row[0]} ${row[1]}`, row]));
  drawTiles();
  drawCharts();
  drawGroups(by("groups-table"));
  drawWorkers(by("workers-table"), by("workers-note"), rows);
  drawRejections(by("rejections-table"));
}

// The values of a group's row in a frame.
function measured([, given, rejected, waiting, outstanding]) {
  return { given, rejected, waiting, outstanding };
}

// What all groups of a frame have together, or one of them.
function sum(frame, of, group = null) {
  const rows = frame.groups.filter(([name]) => group === null || name === group);
  return rows.reduce((all, row) => all + measured(row)[of], 0);
}

function drawTiles() {
  const now = newest();
  const end = known.frames.at(-1)?.time_ms ?? 0;
  const { groups, workers } = known.overview;
  const total = (of) => (now === null ? null : sum(now, of));
  const line = (of) => spark(known.frames.map((frame) => [frame.time_ms, sum(frame, of)]), end);
  const clients = groups.reduce((all, group) => all + group.clients, 0);
  const all = groups.reduce((all, group) => all + group.workers, 0);
  const there = workers.filter(({ state }) => state === "there").length;
  const [rejected, waiting] = [total("rejected"), total("waiting")];
  const tiles = [
    ["workers there", there === all ? count(all) : `${count(there)} of ${count(all)}`, null,
      there < all],
    ["clients", count(clients), null],
    ["given", rate(total("given")), line("given")],
    ["rejected", rate(rejected), line("rejected"), rejected > 0],
    ["waiting", count(waiting), line("waiting")],
    ["outstanding", count(total("outstanding")), line("outstanding")],
  ];
  by("tiles").replaceChildren(...tiles.map(([name, value, drawing, isBad]) => el("div",
    { class: isBad ? "card tile is-bad" : "card tile", "data-tile": name },
    el("div", { class: "name" }, name), el("div", { class: "value" }, value), drawing)));
}

function drawCharts() {
  const names = known.overview.groups.map(({ group }) => group);
  if (!names.includes(focus)) focus = null;
  fillSelect(by("focus-group"), [["", "all"], ...names.map((name) => [name, name])], focus ?? "");
  const end = known.frames.at(-1)?.time_ms ?? 0;
  const shown = focus === null ? names : [focus];
  for (const of of ["given", "waiting", "outstanding", "rejected"]) {
    charts[of].show(shown.map((name) => ({
      name,
      points: known.frames.map((frame) => [frame.time_ms, sum(frame, of, name)]),
    })), end);
  }
  const workers = busiest();
  charts.workerOutstanding.show(workerLines(workers, 2), end);
  charts.workerGiven.show(workerLines(workers, 3), end);
}

// The workers that were given most in the last minutes.
function busiest() {
  const sums = new Map();
  for (const frame of known.frames) {
    for (const [group, worker, , given] of frame.workers) {
      if (focus !== null && group !== focus) continue;
      const key = `${group} ${worker}`;
      const sum = sums.get(key) ?? { group, worker, given: 0 };
      sum.given += given;
      sums.set(key, sum);
    }
  }
  return [...sums.values()].sort((one, other) => other.given - one.given).slice(0, 6)
    .sort((one, other) => one.group.localeCompare(other.group) || one.worker - other.worker);
}

function workerLines(workers, place) {
  const isOne = known.overview.groups.length === 1 || focus !== null;
  return workers.map(({ group, worker }) => ({
    name: isOne ? `worker ${worker}` : `${group} worker ${worker}`,
    points: known.frames.map((frame) => {
      const row = frame.workers.find(([of, one]) => of === group && one === worker);
      return [frame.time_ms, row?.[place] ?? null];
    }),
  }));
}

function badge(text, kind) {
  return el("span", { class: kind === "" ? "badge" : `badge ${kind}` }, text);
}

function drawGroups(table) {
  const now = new Map((newest()?.groups ?? []).map((row) => [row[0], measured(row)]));
  const isNumber = true;
  const per = (of) => ({ group }) => rate(now.get(group)?.[of]);
  fillTable(table, [
    { name: "group", isWhole: true, text: ({ group }) => group },
    { name: "role", fill: (cell, { is_active: isActive }) => once(cell, isActive, () =>
      [isActive ? badge("active", "") : badge("standby", "warn")]) },
    { name: "policy", isWhole: true, text: ({ settings: { policy, limit } }) =>
      (limit === null ? policy : `${policy}, at most ${limit}`) },
    { name: "waiting", isNumber, fill: (cell, { waiting, settings }) =>
      meter(cell, waiting, settings.waiting_max ?? undefined, count) },
    { name: "bytes waiting", isNumber, text: (group) => bytes(group.waiting_bytes) },
    { name: "outstanding", isNumber, text: ({ outstanding }) => count(outstanding) },
    { name: "given", isNumber, text: per("given") },
    { name: "rejected", isNumber, text: per("rejected") },
    { name: "workers", isNumber, text: ({ workers }) => count(workers) },
    { name: "clients", isNumber, text: ({ clients }) => count(clients) },
    { name: "services", isWrapped: true, text: ({ services }) => services.join(", ") || "–" },
  ], known.overview.groups, ({ group }) => group, "There are no groups.");
}

const STATES = { there: "", joining: "warn", draining: "warn", drained: "warn" };

function drawWorkers(table, note, rows) {
  const isNumber = true;
  const now = ({ group, worker }) => rows.get(`${group} ${worker}`);
  fillTable(table, [
    { name: "group", isWhole: true, text: ({ group }) => group },
    { name: "worker", isNumber, text: ({ worker }) => String(worker) },
    { name: "address", isWhole: true, text: ({ address }) => address },
    { name: "state", fill: (cell, { state, is_primary: isPrimary }) =>
      once(cell, [state, isPrimary], () => [badge(state, STATES[state] ?? "bad"),
        ...(isPrimary ? [" ", badge("primary", "")] : [])]) },
    { name: "outstanding", isNumber, fill: (cell, { outstanding, limit }) =>
      meter(cell, outstanding, limit, count) },
    { name: "n", isNumber, text: ({ bound }) => count(bound) },
    { name: "weight", isNumber, text: ({ weight }) => `${weight} %` },
    { name: "given", isNumber, text: (one) => rate(now(one)?.[3]) },
    { name: "settled", isNumber, text: (one) => rate(now(one)?.[4]) },
    { name: "given in all", isNumber, text: ({ given }) => count(given) },
    { name: "heard", isNumber, text: ({ heard_us: heard }) => `${duration(heard * 1000)} ago` },
    { name: "names", isWrapped: true, text: ({ names }) => names.join(", ") || "–" },
  ], known.overview.workers, ({ group, worker }) => `${group} ${worker}`, "No worker has joined.");
  const leftOut = known.overview.workers_left_out;
  say(note, `${count(leftOut)} workers more are not shown.`);
  note.hidden = leftOut === 0;
}

// Counts by name, those that are not 0.
function counted(cell, counts, kind) {
  const shown = Object.entries(counts).filter(([, many]) => many > 0);
  once(cell, shown, () => (shown.length === 0 ? ["–"]
    : shown.flatMap(([name, many]) => [badge(`${name} ${count(many)}`, kind), " "])));
}

function drawRejections(table) {
  const by = (name, of, kind) => (
    { name, isWrapped: true, fill: (cell, group) => counted(cell, of(group), kind) });
  fillTable(table, [
    { name: "group", isWhole: true, text: ({ group }) => group },
    by("rejected, by code", (group) => group.rejected, "bad"),
    by("of these in the queue", (group) => group.turned_away, "warn"),
    by("packets dropped", (group) => ({ ...group.dropped, ...feedback(group) }), "warn"),
    by("workers lost", ({ silences, ejections, abandoned }) => (
      { silences, ejections, abandoned }), "warn"),
    { name: "probes", isNumber: true, text: ({ probes }) => count(probes) },
    by("refused", (group) => (
      { attaches: group.attaches_refused, joins: group.joins_refused }), "bad"),
  ], known.overview.groups, ({ group }) => group, "There are no groups.");
}

function feedback(group) {
  return Object.fromEntries(Object.entries(group.feedback_dropped)
    .map(([name, many]) => [`feedback ${name}`, many]));
}

by("focus-group").addEventListener("change", ({ target }) => {
  focus = target.value === "" ? null : target.value;
  draw();
});
by("charts-drawing").append(...Object.values(charts).map((chart) => chart.element));
start("/api/router", "router", draw);

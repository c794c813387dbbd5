// Lists of what there is. Rows stay the same elements while their contents change, so that what
// somebody reads, selects or has opened stays.

import {
  byteRate, bytes, count, duration, el, number, percent, pretty, rate, say, time,
} from "./format.js";
import { known, nameOf, newest, rowKey, rowsNow } from "./state.js";

// Brings the children of an element into line with items: `make` makes one of a key that is new,
// and `update` fills it.
function keyed(parent, items, keyOf, make, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = String(keyOf(item));
    const child = before.get(key) ?? make(item);
    before.delete(key);
    child.dataset.key = key;
    update(child, item);
    const there = parent.children[index] ?? null;
    if (there !== child) parent.insertBefore(child, there);
  });
  before.forEach((child) => child.remove());
}

// A table of columns { name, text(item) or fill(cell, item), isNumber, isWrapped, isWhole }.
export function fillTable(table, columns, items, keyOf, none) {
  if (table.tHead === null) {
    const cells = columns.map(({ name, isNumber, sort }) => {
      const kind = isNumber ? "number" : null;
      return el("th", { scope: "col", class: kind }, sort ? sort() : name);
    });
    table.append(el("thead", {}, el("tr", {}, ...cells)), el("tbody"));
  }
  const kind = ({ isNumber, isWrapped, isWhole }) => (
    isNumber ? "number" : isWrapped ? "wrap" : isWhole ? "whole" : null);
  const make = () => el("tr", {}, ...columns.map((column) => el("td", { class: kind(column) })));
  keyed(table.tBodies[0], items, keyOf, make, (row, item) => {
    columns.forEach(({ text, fill }, index) => {
      const cell = row.cells[index];
      if (fill) fill(cell, item);
      else say(cell, text(item));
    });
  });
  if (items.length === 0) {
    const cell = el("td", { class: "none", colspan: columns.length }, none);
    table.tBodies[0].append(el("tr", {}, cell));
  }
}

// Fills an element only if what it shows has changed.
export function once(element, value, fill) {
  const text = JSON.stringify(value);
  if (element.dataset.shown === text) return;
  element.dataset.shown = text;
  element.replaceChildren(...fill());
}

const METHODS = {
  application: [(row) => nameOf(row.number), 1],
  method: [(row) => row.method ?? "(others)", 1],
  way: [(row) => row.way, 1],
  "calls/s": [(row) => row.now?.begun ?? 0, -1],
  "failed/s": [(row) => row.now?.failed ?? 0, -1],
  "under way": [(row) => row.under_way, -1],
  p50: [(row) => row.now?.p50 ?? 0, -1],
  p99: [(row) => row.now?.p99 ?? 0, -1],
  "bytes/s": [(row) => row.now?.bytes ?? 0, -1],
  "calls in all": [(row) => row.begun, -1],
};
let methodOrder = "calls/s";

// `focus` is told which application and method somebody has chosen.
export function drawMethods(table, note, focus) {
  const now = rowsNow();
  const rows = (known.overview?.calls ?? []).map((row) => (
    { ...row, now: now.get(rowKey(row.number, row.method, row.way)) }));
  const [value, direction] = METHODS[methodOrder];
  rows.sort((one, other) => direction * compared(value(one), value(other))
    || compared(other.begun, one.begun));
  const order = (name) => {
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      methodOrder = name;
      drawMethods(table, note, focus);
    });
    return button;
  };
  const column = (name, text, more = {}) => ({ name, text, sort: () => order(name), ...more });
  const isNumber = true;
  fillTable(table, [
    column("application", (row) => nameOf(row.number), { isWhole: true }),
    column("method", null, { fill: (cell, row) => chooser(cell, row, focus) }),
    column("way", (row) => row.way, { isWhole: true }),
    column("calls/s", (row) => number(row.now?.begun ?? 0), { isNumber }),
    column("failed/s", null, { isNumber, fill: failing }),
    column("under way", (row) => count(row.under_way), { isNumber }),
    column("p50", (row) => duration(row.now?.p50), { isNumber }),
    column("p99", (row) => duration(row.now?.p99), { isNumber }),
    column("bytes/s", (row) => byteRate(row.now?.bytes ?? 0), { isNumber }),
    column("calls in all", (row) => count(row.begun), { isNumber }),
    { name: "ended with", isWhole: true,
      fill: (cell, row) => once(cell, row.ended, () => codes(row.ended)) },
  ], rows, (row) => rowKey(row.number, row.method, row.way), "Nothing was called yet.");
  for (const head of table.tHead.rows[0].cells) {
    if (head.textContent !== methodOrder) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
  }
  const leftOut = known.overview?.calls_left_out ?? 0;
  say(note, `${count(leftOut)} methods more are not shown.`);
  note.hidden = leftOut === 0;
}

function compared(one, other) {
  return typeof one === "number" ? one - other : one.localeCompare(other);
}

function chooser(cell, row, focus) {
  if (cell.firstChild === null) {
    const button = el("button", { type: "button", class: "row-button" });
    button.addEventListener("click", () => focus(row.number, row.method ?? "(others)"));
    cell.append(button);
  }
  say(cell.firstChild, row.method ?? "(others)");
}

function failing(cell, row) {
  const failed = row.now?.failed ?? 0;
  say(cell, number(failed));
  cell.classList.toggle("failed", failed > 0);
}

function codes(ended) {
  const sorted = Object.entries(ended).sort(([, one], [, other]) => other - one);
  return sorted.flatMap(([code, calls]) => {
    const kind = code === "OK" ? "" : code === "CANCELLED" ? " warn" : " bad";
    return [el("span", { class: `badge${kind}` }, `${code} ${number(calls)}`), " "];
  });
}

export function drawDatapaths(list) {
  const frame = newest();
  const now = new Map((frame?.engines ?? []).map(([of, place, kind, items, ended, cost, load]) =>
    [`${of} ${place} ${kind}`, { items, ended, cost, load }]));
  const sums = new Map((known.overview?.engines ?? []).map((engine) =>
    [`${engine.number} ${engine.place} ${engine.kind}`, engine]));
  const policies = new Map((known.overview?.policies ?? []).map((one) => [one.id, one]));
  const paths = known.overview?.datapaths ?? [];
  keyed(list, paths, (path) => path.number, pathMade, (element, path) => {
    const [name] = element.children[0].children;
    say(name, nameOf(path.number));
    const engines = path.engines.map((engine) => {
      const key = `${path.number} ${engine.place} ${engine.kind}`;
      const rule = policies.get(engine.policy);
      return { ...engine, now: now.get(key), sum: sums.get(key), rule };
    });
    const chain = element.children[1];
    keyed(chain, engines, (engine) => `${engine.place} ${engine.kind}`, engineMade, engineFilled);
    const rest = engines.length > 0 ? "others" : "others, as there are no engines";
    chain.append(el("span", { class: "others" }, rest));
  });
  if (paths.length === 0) list.append(el("p", { class: "none" }, "No application is attached."));
}

function pathMade(path) {
  const number = el("span", { class: "none" }, `number ${path.number}`);
  const end = el("div", { class: "end" }, el("b"), number);
  return el("div", { class: "datapath" }, end, el("div", { class: "chain" }));
}

function engineMade() {
  const head = el("summary", {}, el("b"), el("span", { class: "badge" }),
    el("div", { class: "cost" }));
  return el("details", { class: "engine" }, head, el("pre"));
}

function engineFilled(element, engine) {
  const [kind, from, cost] = element.children[0].children;
  say(kind, engine.kind);
  say(from, engine.policy === null ? "attached"
    : engine.is_overridden ? `policy ${engine.policy}, changed` : `policy ${engine.policy}`);
  from.classList.toggle("warn", engine.is_overridden || engine.policy === null);
  const { now, sum } = engine;
  const ended = now?.ended > 0 ? `, ends ${rate(now.ended)}` : "";
  // Few items are measured: in a second without any, an item costs what it did on average.
  const average = sum?.item_ns ?? null;
  const load = now?.load ?? (average === null ? null : now?.items * average / 1e9);
  say(cost, now ? `${number(now.items)} items/s, ${duration(now.cost ?? average)} each, `
    + `load ${percent(load)}${ended}`
    : `${count(sum?.items ?? 0)} items, ${count(sum?.ended ?? 0)} calls ended`);
  say(element.children[1], pretty(engine.configuration ?? engine.rule?.configuration ?? {}));
}

export function drawPolicies(table, note) {
  const { policies = [], policies_file: file } = known.overview ?? {};
  say(note, file ? `In this order, the first next to applications. A reload reads ${file}.`
    : "In this order, the first next to applications.");
  fillTable(table, [
    { name: "ID", isNumber: true, text: (policy) => String(policy.id) },
    { name: "application", text: (policy) => policy.application },
    { name: "kind", text: (policy) => policy.kind },
    { name: "datapaths", isNumber: true, text: (policy) => count(policy.datapaths) },
    { name: "settings", isWrapped: true, fill: (cell, { configuration }) =>
      once(cell, configuration, () => settings(configuration)) },
  ], policies, (policy) => policy.id, "There are no policies: calls pass as they are.");
}

// Short ones in a line, long ones to be opened.
function settings(configuration) {
  const line = typeof configuration === "string" ? configuration : JSON.stringify(configuration);
  if (line.length <= 100) return [el("code", {}, line)];
  const head = el("summary", {}, el("code", {}, `${[...line].slice(0, 90).join("")}…`));
  return [el("details", {}, head, el("pre", {}, pretty(configuration)))];
}

export function drawApplications(table, quotaTable) {
  const { applications = [], quotas = [], quotas_attached: attached = [] } = known.overview ?? {};
  const limits = new Map(attached.map((quota) => [quota.number, quota]));
  const used = (name, of, most, format) => ({
    name, isNumber: true, fill: (cell, one) => meter(cell, of(one), limits.get(one.number)?.[most],
      format),
  });
  fillTable(table, [
    { name: "number", isNumber: true, text: (one) => String(one.number) },
    { name: "name", text: (one) => one.name },
    { name: "user", isNumber: true, text: (one) => `${one.uid}:${one.gid}` },
    { name: "process", isNumber: true, text: (one) => String(one.pid ?? "–") },
    { name: "serves", isWrapped: true, text: (one) => one.serves.join(", ") || "–" },
    used("calls", (one) => one.calls, "items", count),
    used("bytes held", (one) => one.held_bytes, "held_bytes", bytes),
    used("descriptors waiting", (one) => one.descriptors_waiting, "descriptors", count),
    { name: "longest message", isNumber: true,
      text: (one) => bytes(limits.get(one.number)?.message_bytes) },
  ], applications, (one) => one.number, "No application is attached.");
  fillTable(quotaTable, [
    { name: "application", text: (quota) => quota.application || "(others)" },
    { name: "calls and items", isNumber: true, text: (quota) => count(quota.items) },
    { name: "bytes held", isNumber: true, text: (quota) => bytes(quota.held_bytes) },
    { name: "descriptors", isNumber: true, text: (quota) => count(quota.descriptors) },
    { name: "longest message", isNumber: true, text: (quota) => bytes(quota.message_bytes) },
    { name: "longest metadata", isNumber: true, text: (quota) => bytes(quota.metadata_bytes) },
    { name: "calls", isNumber: true, text: (quota) => count(quota.calls) },
    { name: "send heap", isNumber: true, text: (quota) => bytes(quota.send_heap_bytes) },
    { name: "receive heap", isNumber: true, text: (quota) => bytes(quota.receive_heap_bytes) },
  ], quotas, (quota) => quota.application, "–");
}

// A number with how much of what is allowed it is.
export function meter(cell, value, most, format) {
  if (cell.firstChild === null) {
    cell.append(el("span"), el("span", { class: "meter", "aria-hidden": "true" }, el("i")));
  }
  const [text, bar] = cell.children;
  say(text, most === undefined ? format(value) : `${format(value)} of ${format(most)}`);
  const part = most > 0 ? Math.min(1, value / most) : 0;
  bar.firstChild.style.width = `${(part * 100).toFixed(1)}%`;
  bar.classList.toggle("is-high", part > 0.8);
}

export function drawAudit(table) {
  const entries = [...known.overview?.audit ?? []].reverse();
  fillTable(table, [
    { name: "time", text: (entry) => time(entry.time_us) },
    { name: "user", isNumber: true, text: (entry) => String(entry.uid) },
    { name: "process", isNumber: true, text: (entry) => String(entry.pid ?? "–") },
    { name: "role", text: (entry) => entry.role },
    { name: "method", text: (entry) => entry.method },
    { name: "status", fill: (cell, { status }) => once(cell, status, () =>
      [el("span", { class: status === "OK" ? "badge" : "badge bad" }, status)]) },
    { name: "what", isWrapped: true, text: what },
  ], entries, (entry) => entry.sequence, "Nothing was recorded yet.");
}

function what({ steps, message, unrecorded }) {
  const more = unrecorded > 0 ? `${count(unrecorded)} calls before it are not recorded` : "";
  return [steps.join("; "), message, more].filter((text) => text !== "").join(" — ");
}

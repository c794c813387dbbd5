// Elements and numbers. Names come from applications: they become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, and texts or elements in it.
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Changes a text only if it is another, so that what is selected stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const PREFIXES = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];

// A number in three digits.
export function number(value) {
  if (value === null || value === undefined) return "–";
  const [unit, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least * 0.9995) ?? [1, ""];
  const scaled = value / unit;
  const digits = Math.abs(scaled) >= 100 || Number.isInteger(scaled) ? 0
    : Math.abs(scaled) >= 10 ? 1 : 2;
  return scaled.toFixed(digits) + prefix;
}

export function rate(value) {
  return value === null || value === undefined ? "–" : `${number(value)}/s`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const step = Math.min(4, Math.floor(Math.log2(Math.max(1, value)) / 10));
  const scaled = value / 2 ** (10 * step);
  const digits = step === 0 || scaled >= 100 || Number.isInteger(scaled) ? 0 : 1;
  return `${scaled.toFixed(digits)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
}

export function byteRate(value) {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

export function duration(nanos) {
  if (nanos === null || nanos === undefined) return "–";
  for (const [least, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (nanos >= least * 0.9995) {
      const scaled = nanos / least;
      return `${scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)} ${unit}`;
    }
  }
  return `${Math.round(nanos)} ns`;
}

export function percent(part) {
  if (part === null || part === undefined) return "–";
  const value = part * 100;
  return `${value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2)} %`;
}

// A time of the day, in the reader's zone; with the day if it is not today.
export function time(micros) {
  const date = new Date(micros / 1000);
  const clock = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? clock
    : `${date.toLocaleDateString("en-CA")} ${clock}`;
}

export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

// What the page knows: the token's session, the frames of the last minutes, what there is now.

// Half of a session; the other half is in a cookie that no script can read.
const KEY = "petasos-key";
const FRAMES_MAX = 300;

export const known = {
  run: null,
  sequence: 0,
  frames: [],
  overview: null,
  // Since the other end has last told something, in ms.
  age: null,
  // Why it is away.
  away: null,
};

export class Unknown extends Error {}
export class Refused extends Error {}

// Begins a session; throws Unknown if the token is wrong.
export async function signIn(token) {
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await ask("/session", { method: "POST", headers });
  localStorage.setItem(KEY, (await answer.json()).key);
}

export async function signOut() {
  await ask("/session", { method: "DELETE" }).catch(() => {});
  localStorage.removeItem(KEY);
}

// Asks what is new.
export async function learn(path) {
  const answer = await ask(`${path}?since=${known.sequence}`);
  const news = await answer.json();
  // Another process has other numbers.
  if (news.run !== known.run) known.frames = [];
  known.run = news.run;
  known.sequence = news.sequence;
  known.frames.push(...news.frames);
  known.frames.splice(0, known.frames.length - FRAMES_MAX);
  known.overview = news.overview ?? known.overview;
  known.age = news.age_ms;
  known.away = news.away;
}

async function ask(path, options = {}) {
  const headers = { "X-Petasos-Key": localStorage.getItem(KEY) ?? "", ...options.headers };
  const signal = AbortSignal.timeout(10_000);
  const answer = await fetch(path, { cache: "no-store", ...options, headers, signal });
  if (answer.status === 401) throw new Unknown();
  if (!answer.ok) throw new Refused(`${answer.status} ${(await answer.text()).trim()}`);
  return answer;
}

// The newest frame, unless what it tells has passed.
export function newest() {
  return known.away === null && known.age !== null && known.age < 5000
    ? known.frames.at(-1) ?? null : null;
}

// What is called so often now: the rows of frames, by application, method and way.
export function rowsNow() {
  const rows = new Map();
  for (const [number, method, way, ...values] of newest()?.calls ?? []) {
    rows.set(rowKey(number, method, way), measured(values));
  }
  return rows;
}

export function rowKey(number, method, way) {
  return `${number} ${way} ${method ?? "(others)"}`;
}

// The values that a row of calls in a frame ends with.
export function measured([begun, failed, underWay, p50, p99, bytes]) {
  return { begun, failed, underWay, p50, p99, bytes };
}

// What an application is called: others may have its name, too.
export function nameOf(number) {
  const all = known.overview?.applications ?? [];
  const found = all.find((one) => one.number === number);
  if (!found) return `(${number})`;
  const isAlone = all.filter((one) => one.name === found.name).length === 1;
  return isAlone ? found.name : `${found.name} (${number})`;
}

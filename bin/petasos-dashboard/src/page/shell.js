// What pages have in common: signs in, asks each second what is new while somebody looks, has it
// drawn, and says how the other end is.

import { el, say } from "./format.js";
import { Refused, Unknown, known, learn, signIn, signOut } from "./state.js";

const EACH_MS = 1000;
const SILENT_MS = 5000;
export const by = (id) => document.getElementById(id);

// What the page shows: see start.
let page = null;
let timer = null;
// A turn that waits for an answer is the only one.
let isAsking = false;

async function turn() {
  clearTimeout(timer);
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    await learn(page.path);
    if (known.overview !== null) page.draw();
    tell();
  } catch (error) {
    if (error instanceof Unknown) return askForToken();
    if (error instanceof Refused) show("lost", "refused", `The dashboard says: ${error.message}`);
    else show("lost", "no answer", "The dashboard does not answer. It is asked again and again.");
  } finally {
    isAsking = false;
  }
  if (!document.hidden) timer = setTimeout(turn, EACH_MS);
}

// How the other end is.
function tell() {
  by("login").hidden = true;
  by("page").hidden = known.overview === null;
  by("sections").hidden = false;
  const { away, age } = known;
  if (away !== null) {
    show("away", "away", `The ${page.who} is away: ${away}`);
  } else if (age === null) {
    show("away", "waiting", `The ${page.who} has not said anything yet.`);
  } else if (age > SILENT_MS) {
    const seconds = Math.round(age / 1000);
    show("away", "silent", `The ${page.who} has not said anything for ${seconds} seconds.`);
  } else {
    show("live", "live", "");
  }
}

function show(state, status, banner) {
  document.body.dataset.state = state;
  say(by("status"), status);
  say(by("banner"), banner);
  by("banner").hidden = banner === "";
}

// Brings the options of a list into line, as [value, name].
export function fillSelect(select, options, chosen) {
  const text = JSON.stringify(options);
  // A list that is open must not change under somebody's finger.
  if (select.dataset.shown !== text) {
    select.dataset.shown = text;
    select.replaceChildren(...options.map(([value, name]) => el("option", { value }, name)));
  }
  if (select.value !== chosen) select.value = chosen;
}

function askForToken() {
  document.body.dataset.state = "login";
  say(by("status"), "signed out");
  by("banner").hidden = true;
  by("page").hidden = true;
  by("sections").hidden = true;
  by("login").hidden = false;
  by("token").focus();
}

async function enter(token) {
  try {
    await signIn(token);
    by("login-failed").hidden = true;
    return turn();
  } catch (error) {
    askForToken();
    say(by("login-failed"), error instanceof Unknown ? "That is not the token."
      : "The dashboard does not answer.");
    by("login-failed").hidden = false;
  }
}

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = by("token").value.trim();
  by("token").value = "";
  enter(token);
});
by("leave").addEventListener("click", async () => {
  clearTimeout(timer);
  await signOut();
  askForToken();
});
// Nobody looks at a page that is hidden; what it misses meanwhile it asks for later.
document.addEventListener("visibilitychange", turn);

// Begins: `path` is where the state is, `who` tells it, and `draw` shows what is known.
export function start(path, who, draw) {
  page = { path, who, draw };
  // The line that the command prints has the token behind `#`, where nobody is sent it.
  const told = new URLSearchParams(location.hash.slice(1)).get("token");
  if (told === null) {
    turn();
  } else {
    history.replaceState(null, "", location.pathname);
    enter(told);
  }
}

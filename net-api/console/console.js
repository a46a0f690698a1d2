// The console of saline-api: the login, and which view is shown.

import * as api from "./api.js";
import { byId, tell } from "./dom.js";
import * as eventlist from "./eventlist.js";
import * as events from "./events.js";
import { guarded, leaveWithoutLogin, onLoginEnd } from "./guard.js";
import { closeJob, readAgain } from "./job.js";
import * as jobs from "./jobs.js";
import * as keys from "./keys.js";
import * as minions from "./minions.js";
import * as run from "./run.js";

/** Each view, by the name of its section. */
const VIEWS = { minions, run, jobs, events: eventlist, keys };

/** How long the page says that events were missed. */
const GAP_MS = 10_000;

let showsGapUntil = 0;
/** Whether what a login may see is on the page. */
let isIn = false;

/** Shows the login, and forgets what was shown to who was logged in. */
function leave(why) {
  isIn = false;
  api.forget();
  events.close();
  closeJob();
  for (const view of Object.values(VIEWS)) view.forget();
  show();
  tell(why ? new Error(why) : null);
}

/** Shows the view that the address names, or the login. */
function show() {
  const held = api.login();
  // It expired meanwhile.
  if (!held && isIn) return leave("The login has ended: log in again.");
  const named = location.hash.slice(1);
  const view = named in VIEWS ? named : "minions";
  byId("header").hidden = !held;
  byId("login").hidden = Boolean(held);
  for (const name of Object.keys(VIEWS)) byId(name).hidden = !held || name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!held) {
    document.title = "Saline";
    byId("login").username.focus();
    return;
  }
  byId("user").textContent = held.user;
  const title = byId(`${view}-title`);
  document.title = `${title.textContent} – Saline`;
  // So that a screen reader says where one is, and Tab goes on from there.
  title.focus();
  guarded(VIEWS[view].open);
}

/** Here a 401 says that the password is wrong, and not that a login has ended. */
async function logIn(form) {
  try {
    tell(null);
    await api.logIn({ username: form.username.value, password: form.password.value, eauth: form.eauth.value });
  } catch (error) {
    tell(error);
    form.password.focus();
    return;
  } finally {
    form.password.value = "";
  }
  begin();
}

function begin() {
  isIn = true;
  events.open({ state: showStream, refused: leaveWithoutLogin });
  show();
}

function showStream(state) {
  if (state === "gap") {
    showsGapUntil = Date.now() + GAP_MS;
    setTimeout(() => showStream("open"), GAP_MS + 100);
    guarded(readAgain);
  }
  const isGap = state !== "away" && Date.now() < showsGapUntil;
  const shown = byId("stream");
  shown.className = `state ${state === "open" && !isGap ? "good" : "wait"}`;
  shown.textContent = isGap ? "some events were missed" : state === "away" ? "connecting" : "live";
}

function ready() {
  onLoginEnd(leave);
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    logIn(event.target);
  });
  byId("logout").addEventListener("click", () => guarded(async () => {
    try {
      await api.logOut();
    } finally {
      leave();
    }
  }));
  for (const view of Object.values(VIEWS)) view.ready();
  addEventListener("hashchange", show);
  if (api.login()) begin();
  else show();
}

ready();

// The console of saline-api: the login, and which view is shown.

import * as api from "./api.js";
import { busy, byId, clock, tell } from "./dom.js";
import * as eventlist from "./eventlist.js";
import * as events from "./events.js";
import { guarded, leaveWithoutLogin, onLoginEnd, unasked } from "./guard.js";
import * as health from "./health.js";
import { forgetJobs, readAgain } from "./job.js";
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
/** The state of the event stream, and why the master cannot be asked, if it cannot, with the time since when. */
let stream = "away";
let outage = null;
let outageSince = null;

/** Shows the login, and forgets what was shown to who was logged in. */
function leave(why) {
  isIn = false;
  api.forget();
  events.close();
  health.stop();
  outage = null;
  forgetJobs();
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
  guarded(() => busy(byId(view), VIEWS[view].open));
}

/** Returns the view that is shown; none before the login. */
function current() {
  return isIn ? Object.entries(VIEWS).find(([name]) => !byId(name).hidden)?.[1] : null;
}

/** Here a 401 says that the password is wrong, and not that a login has ended. */
async function logIn(form) {
  try {
    tell(null);
    const fields = { username: form.username.value, password: form.password.value, eauth: form.eauth.value };
    await busy(form, () => api.logIn(fields));
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
  stream = "away";
  events.open({ state: setStream, refused: leaveWithoutLogin });
  health.watch(setOutage);
  show();
  showState();
}

function setStream(state) {
  if (state === "gap") {
    showsGapUntil = Date.now() + GAP_MS;
    setTimeout(showState, GAP_MS + 100);
    unasked(readAgain);
  } else {
    stream = state;
  }
  // The browser connects again by itself; why it has to is asked at once.
  if (state === "away") health.askNow();
  showState();
}

/** Takes what the API says of its master. What the page shows is read again when it answers again. */
function setOutage(why) {
  const wasAway = outage !== null;
  if (why !== null && !wasAway) outageSince = new Date();
  outage = why;
  if (wasAway && why === null) {
    unasked(readAgain);
    unasked(async () => current()?.refresh?.());
  }
  showState();
}

/** Says whether the page is up to date. */
function showState() {
  const isGap = Date.now() < showsGapUntil;
  const [text, kind] =
    outage !== null
      ? ["not connected", "bad"]
      : stream === "away"
        ? ["connecting", "wait"]
        : isGap
          ? ["some events were missed", "wait"]
          : ["live", "good"];
  const shown = byId("stream");
  shown.className = `state pill ${kind}`;
  if (shown.textContent !== text) shown.textContent = text;
  const told = byId("outage");
  told.hidden = outage === null;
  const sentence = outage === null ? "" : `${begun(outage)}. What is shown is of ${clock(outageSince)}; this page goes on by itself.`;
  if (told.textContent !== sentence) told.textContent = sentence;
}

/** Returns a text with a capital letter at its begin. */
function begun(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
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
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) tell(null);
  });
  if (api.login()) begin();
  else show();
}

ready();

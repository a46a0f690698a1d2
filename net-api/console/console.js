// The console of saline-api: which view is shown, and what each of them asks for.

import * as api from "./api.js";
import { command } from "./command.js";
import { byId, element, shown, tell } from "./dom.js";
import * as events from "./events.js";
import { watch } from "./job.js";

const VIEWS = ["minions", "run", "jobs", "events", "keys"];
const KEPT_EVENTS = 500;

/** What each view does when it is opened. */
const opened = { minions: showMinions, run: () => byId("run-form").tgt.focus(), jobs: showJobs, events: showEvents, keys: showKeys };
let watched = null;
let seenEvents = [];

/** Runs something that may fail; tells why it did, and asks for a login when there is none any more. */
async function guarded(work) {
  try {
    tell(null);
    await work();
  } catch (error) {
    if (error.status === 401 && !(await stillLoggedIn())) {
      leave("The login has ended: log in again.");
      return;
    }
    tell(error);
  }
}

/** A 401 also says that a rule is missing. */
async function stillLoggedIn() {
  try {
    await api.ask("stats");
    return true;
  } catch (error) {
    return error.status !== 401;
  }
}

function leave(why) {
  api.forget();
  events.close();
  show();
  tell(why ? new Error(why) : null);
}

/** Shows the view that the address names, or the login. */
function show() {
  const held = api.login();
  const named = location.hash.slice(1);
  const view = VIEWS.includes(named) ? named : VIEWS[0];
  byId("header").hidden = !held;
  byId("login").hidden = Boolean(held);
  for (const name of VIEWS) byId(name).hidden = !held || name !== view;
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
  document.title = `${byId(view).querySelector("h2").textContent} – Saline`;
  guarded(opened[view]);
}

function begin() {
  events.open((state) => {
    const shownState = byId("stream");
    shownState.className = `state ${state === "open" ? "good" : "wait"}`;
    shownState.textContent = state === "open" ? "live" : state === "gap" ? "some events were missed" : "connecting";
    if (state === "gap" && watched) guarded(watched.read);
  });
  show();
}

async function showMinions() {
  const [facts, status, transports] = await Promise.all([
    api.ask("minions"),
    optional(api.runner("manage.status")),
    optional(api.runner("manage.transports")),
  ]);
  const grains = facts.return[0] || {};
  const up = new Set(status?.up);
  const known = new Set([...Object.keys(grains), ...(status?.up || []), ...(status?.down || [])]);
  const over = new Map();
  for (const [transport, ids] of Object.entries(transports || {})) {
    for (const id of Array.isArray(ids) ? ids : []) over.set(id, transport);
  }
  const wanted = byId("minions-filter").value.toLowerCase();
  const rows = [...known]
    .sort()
    .filter((id) => `${id} ${JSON.stringify(grains[id] || {})}`.toLowerCase().includes(wanted))
    .map((id) => {
      const own = typeof grains[id] === "object" && grains[id] ? grains[id] : {};
      const isUp = up.has(id);
      const presence = status ? (isUp ? "present" : "away") : "unknown";
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, id),
        element("td", { class: `state ${isUp ? "good" : "quiet"}` }, presence),
        element("td", {}, over.get(id) || ""),
        element("td", {}, [own.osfullname || own.os || "", own.osrelease || ""].join(" ").trim()),
        element("td", {}, own.salineversion || own.saltversion || ""),
      );
    });
  byId("minions-rows").replaceChildren(...rows);
  byId("minions-count").textContent = `${rows.length} of ${known.size} minions, ${up.size} present`;
}

/** Returns what a request gives, or none where no rule allows it. */
async function optional(request) {
  try {
    const given = await request;
    return given && typeof given === "object" ? given : null;
  } catch (error) {
    if (error.status === 401 || error.status === 400) return null;
    throw error;
  }
}

async function showJobs() {
  const answer = await api.ask("jobs");
  const jobs = Object.entries(answer.return[0] || {}).sort().reverse();
  byId("jobs-rows").replaceChildren(
    ...jobs.map(([jid, job]) => {
      const fun = job.Function || "";
      const open = element("button", { type: "button", onclick: () => guarded(() => openJob(byId("jobs-job"), jid, fun, [])) }, jid);
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, open),
        element("td", {}, element("code", {}, fun)),
        element("td", {}, shown(job.Target ?? "")),
        element("td", {}, job.User || ""),
        element("td", {}, job.Returned === undefined ? "" : `${job.Returned} of ${job.Minions ?? "?"}`),
      );
    }),
  );
  byId("jobs-count").textContent = `${jobs.length} jobs`;
}

async function openJob(place, jid, fun, minions) {
  if (watched) watched.stop();
  watched = watch(place, jid, fun, minions);
  await watched.read();
}

async function preview() {
  const form = byId("run-form");
  const query = new URLSearchParams({ tgt: form.tgt.value, tgt_type: form.tgt_type.value });
  const answer = await api.ask(`targets?${query}`);
  const ids = answer.return[0];
  byId("run-minions").textContent = ids.length
    ? `${ids.length} minions match: ${ids.slice(0, 50).join(", ")}${ids.length > 50 ? ", …" : ""}`
    : "No minion matches.";
}

async function runCommand() {
  const form = byId("run-form");
  const { fun, arg, kwarg } = command(form.command.value);
  const tgt = form.tgt_type.value === "list" ? form.tgt.value.split(",").map((id) => id.trim()) : form.tgt.value;
  const begun = await api.run({ client: "local_async", tgt, tgt_type: form.tgt_type.value, fun, arg, kwarg });
  if (!begun || !begun.jid) {
    byId("run-minions").textContent = "No minion matches: nothing was run.";
    return;
  }
  byId("run-minions").textContent = "";
  await openJob(byId("run-job"), begun.jid, fun, begun.minions || []);
}

function showEvents() {
  const prefix = byId("events-filter").value;
  const matching = seenEvents.filter(({ tag }) => tag.startsWith(prefix)).slice(0, 200);
  byId("events-rows").replaceChildren(
    ...matching.map(({ tag, data, at }) =>
      element(
        "li",
        {},
        element("details", {}, element("summary", {}, element("time", { class: "quiet" }, at), ` ${tag}`), element("pre", {}, shown(data))),
      ),
    ),
  );
  byId("events-count").textContent = `${matching.length} shown of ${seenEvents.length}`;
}

async function showKeys() {
  const keys = (await api.ask("keys")).return || {};
  const fingers = (await optional(api.wheel("key.finger", { match: "*" }))) || {};
  const states = [
    ["minions_pre", "waits", "wait", ["accept", "reject"]],
    ["minions_denied", "denied", "bad", ["delete"]],
    ["minions", "accepted", "good", ["delete"]],
    ["minions_rejected", "rejected", "bad", ["accept", "delete"]],
  ];
  const rows = states.flatMap(([folder, state, kind, decisions]) =>
    (keys[folder] || []).map((id) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, id),
        element("td", { class: `state ${kind}` }, state),
        element("td", { class: "fingerprint" }, fingers[folder]?.[id] || ""),
        element(
          "td",
          {},
          ...decisions.map((decision) =>
            element(
              "button",
              { type: "button", "aria-label": `${decision} the key of ${id}`, onclick: () => guarded(() => decide(decision, folder, id, fingers[folder]?.[id])) },
              decision[0].toUpperCase() + decision.slice(1),
            ),
          ),
        ),
      ),
    ),
  );
  byId("keys-rows").replaceChildren(...rows);
  byId("keys-count").textContent = `${(keys.minions_pre || []).length} keys wait for a decision`;
}

async function decide(decision, folder, id, finger) {
  if (decision === "delete" && !confirm(`Delete the key of ${id}? The minion is cut off at once.`)) return;
  // The master acts on the key with this fingerprint alone, also when another one has come into its place.
  const compared = finger === undefined ? {} : { finger: { [id]: finger } };
  const changed = await api.wheel(`key.${decision}_dict`, { match: { [folder]: [id] }, ...compared });
  await showKeys();
  if (decision !== "delete" && Object.keys(changed).length === 0) {
    throw new Error(`The key of ${id} has changed meanwhile: compare its fingerprint again.`);
  }
}

function ready() {
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    guarded(async () => {
      await api.logIn({ username: form.username.value, password: form.password.value, eauth: form.eauth.value });
      form.password.value = "";
      begin();
    });
  });
  byId("logout").addEventListener("click", () => guarded(async () => {
    await api.logOut();
    leave();
  }));
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(runCommand);
  });
  byId("run-preview").addEventListener("click", () => guarded(preview));
  byId("minions-refresh").addEventListener("click", () => guarded(showMinions));
  byId("minions-filter").addEventListener("change", () => guarded(showMinions));
  byId("jobs-refresh").addEventListener("click", () => guarded(showJobs));
  byId("keys-refresh").addEventListener("click", () => guarded(showKeys));
  byId("events-filter").addEventListener("input", showEvents);
  events.listen(({ tag, data }) => {
    if (byId("events-pause").checked) return;
    seenEvents = [{ tag, data, at: new Date().toLocaleTimeString() }, ...seenEvents].slice(0, KEPT_EVENTS);
    if (!byId("events").hidden) showEvents();
    if (tag.startsWith("salt/auth") && !byId("keys").hidden) guarded(showKeys);
  });
  addEventListener("hashchange", show);
  if (api.login()) begin();
  else show();
}

ready();

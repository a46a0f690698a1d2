// The minions: who is present, over which transport, and the facts of each.

import * as api from "./api.js";
import { byId, cell, element, explain, shown } from "./dom.js";
import { listen } from "./events.js";
import { guarded, optional, unasked } from "./guard.js";
import { reachable } from "./reachable.js";

/** How long presence may change before it is asked for again. */
const SETTLE_MS = 500;

/** The rows of the table by the minion's id. A row stays the same element, so that what is open stays open and the focus where it is. */
const rows = new Map();
/** The ids of the minions that are present; none where no rule lets this login ask. */
let presence = null;
let hasFacts = false;
let settling = null;

export async function open() {
  if (rows.size === 0) explain("minions", "Loading …");
  await refresh().catch((error) => {
    if (rows.size === 0) explain("minions", "The minions could not be loaded.");
    throw error;
  });
}

/** Asks for the minions, and shows them. */
export async function refresh() {
  const [grains, status, transports] = await Promise.all([
    optional(api.runner("cache.grains")),
    optional(api.runner("manage.status")),
    optional(api.runner("manage.transports")),
  ]);
  const ids = new Set([...Object.keys(grains || {}), ...(status?.up || []), ...(status?.down || [])]);
  // Whoever may ask nothing of the master is shown the minions on which its rules allow something.
  if (!grains && !status) for (const id of await reachable()) ids.add(id);
  // The login has ended meanwhile.
  if (!api.login()) return;
  presence = status && new Set(status.up || []);
  hasFacts = Boolean(grains);
  const over = new Map();
  for (const [transport, listed] of Object.entries(transports || {})) {
    for (const id of Array.isArray(listed) ? listed : []) over.set(id, transport);
  }
  for (const [id, row] of rows) {
    if (!ids.has(id)) remove(id, row);
  }
  for (const id of ids) {
    const found = grains?.[id];
    update(rowOf(id), over.get(id) || "", typeof found === "object" && found ? found : null);
  }
  order();
  filter();
}

function rowOf(id) {
  const known = rows.get(id);
  if (known) return known;
  const toggle = element("button", { type: "button", class: "disclosure", "aria-expanded": "false" }, id);
  const [state, transport, system, version] = ["Presence", "Transport", "System", "Version"].map((name) => cell(name, {}));
  const line = element("tr", {}, element("th", { scope: "row" }, toggle), state, transport, system, version);
  const row = { id, toggle, state, transport, system, version, line, own: null, written: null, text: id.toLowerCase(), details: null };
  toggle.addEventListener("click", () => (row.details ? close(row) : show(row)));
  line.addEventListener("keydown", (event) => escape(event, row));
  rows.set(id, row);
  return row;
}

function update(row, transport, own) {
  const isUp = presence?.has(row.id);
  row.state.className = `state ${presence ? (isUp ? "good" : "bad") : "quiet"}`;
  put(row.state, presence ? (isUp ? "present" : "away") : "not shown");
  put(row.transport, transport);
  if (own) learn(row, own);
}

/** Shows the grains of a minion. */
function learn(row, own) {
  const written = JSON.stringify(own);
  if (row.written === written) return;
  row.own = own;
  row.written = written;
  row.text = `${row.id} ${written}`.toLowerCase();
  put(row.system, [own.osfullname || own.os || "", own.osrelease || ""].join(" ").trim());
  put(row.version, String(own.salineversion || own.saltversion || ""));
  if (row.details) row.details.place.replaceChildren(list(row));
}

/** Writes a text where it is not there already. */
function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function remove(id, row) {
  const hadFocus = row.line.contains(document.activeElement) || row.details?.line.contains(document.activeElement);
  row.line.remove();
  row.details?.line.remove();
  rows.delete(id);
  if (hadFocus) byId("minions-title").focus();
}

/** Puts new rows where they belong, and moves no other. */
function order() {
  const place = byId("minions-rows");
  let before = null;
  for (const row of [...rows.values()].sort((a, b) => (a.id < b.id ? 1 : -1))) {
    if (!row.line.isConnected) place.insertBefore(row.line, before);
    before = row.line;
  }
}

function filter() {
  const wanted = byId("minions-filter").value.toLowerCase();
  const onlyAway = byId("minions-away").checked;
  let matching = 0;
  let up = 0;
  for (const row of rows.values()) {
    const isShown = row.text.includes(wanted) && !(onlyAway && presence?.has(row.id));
    row.line.hidden = !isShown;
    if (row.details) row.details.line.hidden = !isShown;
    matching += isShown;
    up += Boolean(presence?.has(row.id));
  }
  byId("minions-away").disabled = presence === null;
  const all = `${rows.size} ${rows.size === 1 ? "minion" : "minions"}`;
  const present = presence && rows.size ? `: ${up} present, ${rows.size - up} away` : "";
  put(byId("minions-count"), `${all}${present}${matching === rows.size ? "" : `; ${matching} shown`}`);
  explain("minions", matching ? "" : emptiness(onlyAway));
  const note = byId("minions-note");
  note.hidden = rows.size === 0 || presence !== null;
  put(note, note.hidden ? "" : withoutPresence());
}

/** Returns why no minion is shown, and what can be done about it. */
function emptiness(onlyAway) {
  const user = api.login()?.user;
  if (rows.size > 0) return onlyAway ? "No minion that is away matches: all others are present." : "No minion matches the filter.";
  if (presence || hasFacts) return "No minion is known yet. Start one with this master in its file, and accept its key under Keys.";
  return `The rules of ${user} let no minion be listed. The master still carries out under Run what they allow; whoever keeps its file can add '@runner' for the whole list.`;
}

function withoutPresence() {
  const user = api.login()?.user;
  return `These are the minions that the rules of ${user} name. Who is present is shown to users with a rule for the runner manage.status.`;
}

/** Opens the facts of a minion, in a row of their own below its row. */
function show(row) {
  const place = element("div", {});
  const run = element("a", { href: "#run", onclick: () => aim(row.id) }, `Run a function on ${row.id}`);
  const line = element("tr", { class: "details" }, element("td", { colspan: "5" }, element("p", {}, run), place));
  line.addEventListener("keydown", (event) => escape(event, row));
  row.details = { line, place };
  row.toggle.setAttribute("aria-expanded", "true");
  row.line.after(line);
  if (row.own) return place.replaceChildren(list(row));
  place.textContent = `Asking ${row.id} for its grains …`;
  guarded(() => fetchFacts(row, place));
}

async function fetchFacts(row, place) {
  const refusal = `No rule of ${api.login()?.user} lets the grains of ${row.id} be read.`;
  const asked = { client: "local", tgt: row.id, tgt_type: "list", fun: "grains.items" };
  try {
    const found = await optional(api.run(asked));
    const own = found?.[row.id];
    if (own && typeof own === "object") learn(row, own);
    else place.textContent = found ? `${row.id} has not answered: it may be away.` : refusal;
  } catch (error) {
    place.textContent = "The grains could not be read.";
    throw error;
  }
}

function close(row) {
  row.details?.line.remove();
  row.details = null;
  row.toggle.setAttribute("aria-expanded", "false");
}

function escape(event, row) {
  if (event.key !== "Escape" || !row.details) return;
  event.preventDefault();
  close(row);
  row.toggle.focus();
}

/** Returns the grains of a minion as a list. */
function list(row) {
  const grains = Object.keys(row.own).sort();
  const entries = grains.map((name) => element("div", {}, element("dt", {}, name), element("dd", {}, grain(row.own[name]))));
  return element("dl", { "aria-label": `Grains of ${row.id}` }, ...entries);
}

/** Returns a grain as a text: a list of texts and numbers in one line, since some have a hundred. */
function grain(value) {
  const isFlat = Array.isArray(value) && value.length > 0 && value.every((one) => one === null || typeof one !== "object");
  return isFlat ? value.map(shown).join(", ") : shown(value);
}

function aim(id) {
  const form = byId("run-form");
  form.tgt.value = id;
  form.tgt_type.value = "list";
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  presence = null;
  hasFacts = false;
  rows.clear();
  byId("minions-rows").replaceChildren();
  byId("minions-filter").value = "";
  byId("minions-away").checked = false;
  byId("minions-count").textContent = "";
  byId("minions-note").textContent = "";
}

export function ready() {
  byId("minions-refresh").addEventListener("click", () => guarded(open));
  byId("minions-filter").addEventListener("input", filter);
  byId("minions-away").addEventListener("change", filter);
  listen(({ tag }) => {
    if (tag !== "salt/presence/change" || byId("minions").hidden || settling) return;
    settling = setTimeout(() => {
      settling = null;
      unasked(refresh);
    }, SETTLE_MS);
  });
}

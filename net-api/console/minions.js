// The minions: who is present, over which transport, and the facts of each.

import * as api from "./api.js";
import { byId, element, shown } from "./dom.js";
import { listen } from "./events.js";
import { guarded, optional } from "./guard.js";

/** How long presence may change before it is asked for again. */
const SETTLE_MS = 500;

let minions = [];
let presence = null;
let settling = null;

/** Asks for the minions, and shows them. */
export async function open() {
  const [grains, status, transports] = await Promise.all([
    facts(),
    optional(api.runner("manage.status")),
    optional(api.runner("manage.transports")),
  ]);
  presence = status && new Set(status.up || []);
  const over = new Map();
  for (const [transport, ids] of Object.entries(transports || {})) {
    for (const id of Array.isArray(ids) ? ids : []) over.set(id, transport);
  }
  const known = new Set([...Object.keys(grains), ...(status?.up || []), ...(status?.down || [])]);
  minions = [...known].sort().map((id) => {
    const own = typeof grains[id] === "object" && grains[id] ? grains[id] : {};
    return { id, own, transport: over.get(id) || "", text: `${id} ${JSON.stringify(own)}`.toLowerCase() };
  });
  show();
}

/** Returns what the master knows of the minions. Whom no rule lets ask for that asks the minions themselves. */
async function facts() {
  const known = await optional(api.runner("cache.grains"));
  return known || (await api.ask("minions")).return[0] || {};
}

function show() {
  const wanted = byId("minions-filter").value.toLowerCase();
  const away = byId("minions-away").checked;
  const matching = minions.filter(({ id, text }) => text.includes(wanted) && !(away && presence?.has(id)));
  byId("minions-rows").replaceChildren(...matching.map(row));
  const gone = presence ? minions.filter(({ id }) => !presence.has(id)).length : 0;
  const present = presence ? `, ${minions.length - gone} present, ${gone} away` : "";
  byId("minions-count").textContent = `${matching.length} of ${minions.length} minions${present}`;
}

function row({ id, own, transport }) {
  const isUp = presence?.has(id);
  const state = presence ? (isUp ? "present" : "away") : "unknown";
  const list = element("pre", { tabindex: "0", "aria-label": `Grains of ${id}` });
  const fill = ({ target }) => {
    // Only what somebody looks at becomes a part of the page.
    list.textContent = target.open ? shown(own) : "";
  };
  const run = element("a", { href: "#run", onclick: () => aim(id) }, `Run a function on ${id}`);
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, element("details", { ontoggle: fill }, element("summary", {}, id), element("p", {}, run), list)),
    element("td", { class: `state ${isUp ? "good" : "bad"}` }, state),
    element("td", {}, transport),
    element("td", {}, [own.osfullname || own.os || "", own.osrelease || ""].join(" ").trim()),
    element("td", {}, own.salineversion || own.saltversion || ""),
  );
}

function aim(id) {
  const form = byId("run-form");
  form.tgt.value = id;
  form.tgt_type.value = "list";
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  minions = [];
  presence = null;
  byId("minions-filter").value = "";
  show();
}

export function ready() {
  byId("minions-refresh").addEventListener("click", () => guarded(open));
  byId("minions-filter").addEventListener("input", show);
  byId("minions-away").addEventListener("change", show);
  listen(({ tag }) => {
    if (tag !== "salt/presence/change" || byId("minions").hidden || settling) return;
    settling = setTimeout(() => {
      settling = null;
      // Whoever reads the facts of a minion goes on reading.
      if (!byId("minions-rows").querySelector("details[open]")) guarded(open);
    }, SETTLE_MS);
  });
}

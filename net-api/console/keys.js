// The keys of minions, those first that wait for a decision.

import * as api from "./api.js";
import { byId, cell, element, explain } from "./dom.js";
import { listen } from "./events.js";
import { guarded, leaveWithoutLogin, optional, unasked } from "./guard.js";

/** For each list of keys: what it is called, how it looks, and what can be decided. */
const STATES = [
  ["minions_pre", "waits", "wait", ["accept", "reject"]],
  ["minions_denied", "denied", "bad", ["accept", "reject", "delete"]],
  ["minions", "accepted", "good", ["delete"]],
  ["minions_rejected", "rejected", "bad", ["accept", "delete"]],
];

/** How long keys may change before they are asked for again. */
const SETTLE_MS = 500;

let keys = {};
let fingers = {};
let settling = null;

export async function open() {
  if (isEmpty()) explain("keys", "Loading …");
  try {
    await refresh();
  } catch (error) {
    if (isEmpty()) explain("keys", "The keys could not be loaded.");
    throw error;
  }
}

/** Asks for the keys, and shows them. */
export async function refresh() {
  let found;
  try {
    found = (await api.ask("keys")).return || {};
  } catch (error) {
    if (error.status !== 401 || (await leaveWithoutLogin())) throw error;
    // No fault of what was asked: this login is not one that decides about keys.
    forget();
    byId("keys-count").textContent = "";
    explain("keys", `Keys are shown to whoever may decide about them, which takes the rule '@wheel'. The master says: ${error.message}`);
    return;
  }
  keys = found;
  fingers = (await optional(api.wheel("key.finger", { match: "*" }))) || {};
  show();
}

function isEmpty() {
  return byId("keys-rows").childElementCount === 0;
}

function show() {
  const wanted = byId("keys-filter").value.toLowerCase();
  const rows = STATES.flatMap(([folder, state, kind, decisions]) =>
    (keys[folder] || [])
      .map((id) => ({ id, finger: fingers[folder]?.[id] }))
      .filter(({ id, finger }) => `${id} ${finger || ""}`.toLowerCase().includes(wanted))
      .map(({ id, finger }) => row(folder, state, kind, decisions, id, finger)),
  );
  const held = byId("keys-rows").contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  byId("keys-rows").replaceChildren(...rows);
  // Who decides by the keyboard stays where they are, also when a key of another minion came meanwhile.
  if (held) byId("keys-rows").querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
  const wait = (keys.minions_pre || []).length;
  const all = STATES.reduce((sum, [folder]) => sum + (keys[folder] || []).length, 0);
  explain("keys", rows.length ? "" : all ? "No key matches the filter." : "No minion has shown its key yet. One that is started with this master in its file appears here.");
  byId("keys-count").textContent = wait === 1 ? "1 key waits for a decision" : `${wait || "No"} keys wait for a decision`;
}

function row(folder, state, kind, decisions, id, finger) {
  // Without a fingerprint there is nothing to compare, and no key to let in.
  const possible = decisions.filter((decision) => decision === "delete" || finger);
  const buttons = possible.map((decision) =>
    element(
      "button",
      {
        type: "button",
        "aria-label": `${decision} the ${named(folder)} of ${id}`,
        onclick: () => guarded(() => decide(decision, folder, id, finger)),
      },
      decision[0].toUpperCase() + decision.slice(1),
    ),
  );
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, id),
    cell("State", { class: `state ${kind}` }, state),
    cell("Fingerprint", { class: "fingerprint" }, finger || ""),
    cell("Decision", { class: "decisions" }, ...buttons),
  );
}

/** Returns what a key is called: an id may have a denied one beside another. */
function named(folder) {
  return folder === "minions_denied" ? "denied key" : "key";
}

/** Returns what is asked before a decision is carried out; nothing when it cuts nobody off. */
function question(decision, folder, id) {
  const isDenied = folder === "minions_denied";
  if (decision === "delete") return isDenied ? `Delete the denied key of ${id}? Other keys of this id stay.` : `Delete the key of ${id}? The minion is cut off at once.`;
  if (decision === "accept" && isDenied && (keys.minions || []).includes(id)) {
    return `Accept the denied key of ${id}? It replaces the accepted one, and the minion that has that one is cut off at once.`;
  }
  return null;
}

async function decide(decision, folder, id, finger) {
  const asked = question(decision, folder, id);
  if (asked && !confirm(asked)) return;
  // The master acts on the key with this fingerprint alone, also when another one has come into its place.
  const compared = finger === undefined ? {} : { finger: { [id]: finger } };
  const changed = await api.wheel(`key.${decision}_dict`, { match: { [folder]: [id] }, ...compared });
  await open();
  // The button that had the focus may be gone with its row.
  if (document.activeElement === document.body) byId("keys-title").focus();
  if (decision !== "delete" && Object.keys(changed).length === 0) {
    throw new Error(`The key of ${id} has changed meanwhile: compare its fingerprint again.`);
  }
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  keys = {};
  fingers = {};
  byId("keys-filter").value = "";
  show();
}

export function ready() {
  byId("keys-refresh").addEventListener("click", () => guarded(open));
  byId("keys-filter").addEventListener("input", show);
  listen(({ tag }) => {
    if ((tag !== "salt/auth" && tag !== "salt/key") || byId("keys").hidden || settling) return;
    settling = setTimeout(() => {
      settling = null;
      unasked(refresh);
    }, SETTLE_MS);
  });
}

// One job, which fills in as its returns arrive.

import { ask } from "./api.js";
import { element, shown } from "./dom.js";
import { listen } from "./events.js";

/** How many of the latest jobs the page remembers which minions were away of. */
const REMEMBERED = 50;

/** What the kinds of events about one minion of a job say of it. */
const STATES = {
  start: ["running", "wait"],
  declined: ["not a target", "quiet"],
  expired: ["not begun in time", "bad"],
  gone: ["gone", "bad"],
};

/** The minions that were away when a job was published, by its jid. */
const missing = new Map();
let watched = null;

/** Shows a job below `place`, with the minions that are known of it, in the place of the one before. */
export async function openJob(place, jid, fun, minions) {
  watched?.stop();
  watched = watch(place, jid, fun, minions);
  await watched.read();
}

/** Reads the job that is shown again, after events were missed. */
export async function readAgain() {
  await watched?.read();
}

/** Shows no job any more. */
export function closeJob() {
  watched?.stop();
  watched = null;
  missing.clear();
}

function watch(place, jid, fun, minions) {
  const rows = element("tbody");
  const bar = element("progress", { "aria-label": "Minions that have returned" });
  // It changes with each return; what is said aloud is the end alone.
  const count = element("span");
  const spoken = element("span", { role: "status", class: "spoken" });
  const failures = element("input", { type: "checkbox", onchange: () => filter() });
  const title = element("h3", { tabindex: "-1" }, `${fun} `, element("code", {}, jid));
  const head = ["Minion", "State", "Return"].map((name) => element("th", { scope: "col" }, name));
  place.replaceChildren(
    title,
    element("p", {}, bar, " ", count, spoken, element("label", { class: "inline" }, failures, " only without success")),
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), rows),
  );
  const shownMinions = new Map();
  let counting = false;
  const filter = () => {
    for (const row of shownMinions.values()) row.line.hidden = failures.checked && row.succeeded;
  };
  const tell = () => {
    counting = false;
    const all = [...shownMinions.values()];
    const returned = all.filter((row) => row.returned).length;
    const failed = all.filter((row) => row.returned && !row.succeeded).length;
    bar.max = Math.max(all.length, 1);
    bar.value = returned;
    count.textContent = `${returned} of ${all.length} returned${failed ? `, ${failed} failed` : ""}`;
    if (all.length > 0 && returned === all.length) spoken.textContent = `All have returned. ${failed} failed.`;
    filter();
  };
  // Once for all that came meanwhile.
  const tellSoon = () => {
    if (!counting) requestAnimationFrame(tell);
    counting = true;
  };
  const rowOf = (id) => {
    let row = shownMinions.get(id);
    if (!row) {
      const state = element("td");
      const value = element("td");
      row = { state, value, returned: false, succeeded: false };
      row.line = element("tr", {}, element("th", { scope: "row" }, id), state, value);
      shownMinions.set(id, row);
      rows.append(row.line);
      setState(row, missing.get(jid)?.has(id) ? "away" : "no return yet", "wait");
    }
    return row;
  };
  const setState = (row, text, kind) => {
    row.state.className = `state ${kind}`;
    row.state.textContent = text;
  };
  const put = (id, value, retcode, success) => {
    const row = rowOf(id);
    if (row.returned) return;
    row.returned = true;
    row.succeeded = !retcode && success !== false;
    row.line.classList.add("fresh");
    setState(row, row.succeeded ? "returned" : retcode ? `failed (${retcode})` : "failed", row.succeeded ? "good" : "bad");
    row.value.replaceChildren(element("pre", { tabindex: "0", "aria-label": `Return of ${id}` }, shown(value)));
    tellSoon();
  };
  for (const id of minions) rowOf(id);
  tell();

  const stop = listen(({ tag, data }) => {
    const [, kind, id] = about(tag, jid) || [];
    if (!id) return;
    if (kind === "ret") put(id, data.return, data.retcode, data.success);
    const known = kind === "state" ? [String(data.state), "wait"] : STATES[kind];
    const row = rowOf(id);
    if (known && !row.returned) setState(row, ...known);
    tellSoon();
  });
  // What came before the events, and what they have missed.
  const read = async () => {
    const answer = await ask(`jobs/${encodeURIComponent(jid)}`);
    const [info] = answer.info || [];
    for (const id of info?.Minions || []) rowOf(id);
    for (const [id, found] of Object.entries(info?.Result || {})) put(id, found?.return, found?.retcode, found?.success);
    tell();
  };
  return { stop, read };
}

/** Returns the kind and the minion of an event of this job. */
function about(tag, jid) {
  const begin = `salt/job/${jid}/`;
  return tag.startsWith(begin) ? /^(\w+)\/(.+)$/.exec(tag.slice(begin.length)) : null;
}

listen(({ tag, data }) => {
  if (!/^salt\/job\/\d+\/new$/.test(tag) || !Array.isArray(data.missing)) return;
  missing.set(data.jid, new Set(data.missing));
  if (missing.size > REMEMBERED) missing.delete(missing.keys().next().value);
});

// One job, which fills in as its returns arrive.

import { ask } from "./api.js";
import { dateAndTime, element, cell, makeScrollable, shown } from "./dom.js";
import { listen } from "./events.js";
import { unasked } from "./guard.js";

/** How long returns that are too large for events are waited for before they are read, first and at most: each time all are read. */
const FIRST_READ_MS = 300;
const LAST_READ_MS = 30_000;

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

/**
 * Shows a job in `place`, with the minions that are known of it, in the place of the one before. With `closed` it can be closed, and
 * `closed` is called then.
 */
export async function openJob(place, jid, fun, minions, closed) {
  closeJob();
  watched = watch(place, jid, fun, minions, closed);
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
}

/** Forgets what is known of jobs. */
export function forgetJobs() {
  closeJob();
  missing.clear();
}

/** Returns when a job began: its jid is that time in UTC. */
export function timeOf(jid) {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\d{6}$/.exec(jid);
  if (!parts) return null;
  const [year, month, ...rest] = parts.slice(1).map(Number);
  return new Date(Date.UTC(year, month - 1, ...rest));
}

function watch(place, jid, fun, minions, closed) {
  const rows = element("tbody");
  const bar = element("progress", { "aria-label": "Minions that have returned" });
  // It changes with each return; what is said aloud is the end alone.
  const count = element("span", { class: "count" });
  const spoken = element("span", { role: "status", class: "spoken" });
  const failures = element("input", { type: "checkbox", onchange: () => filter() });
  const title = element("h3", { tabindex: "-1" }, fun);
  const about = element("p", { class: "about" }, element("code", {}, jid));
  const end = () => {
    closeJob();
    closed();
  };
  const button = element("button", { type: "button", onclick: end }, "Close");
  const head = ["Minion", "State", "Return"].map((name) => element("th", { scope: "col" }, name));
  const empty = element("p", { class: "empty", hidden: true });
  const table = element("table", { "aria-label": `Returns of ${fun}` }, element("thead", {}, element("tr", {}, ...head)), rows);
  const card = element(
    "div",
    { class: "job" },
    element("div", { class: "job-head" }, title, ...(closed ? [button] : [])),
    about,
    element("p", { class: "bar" }, bar, count, spoken, element("label", { class: "check" }, failures, " only without success")),
    empty,
    table,
  );
  if (closed) {
    card.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      end();
    });
  }
  place.replaceChildren(card);
  const shownMinions = new Map();
  let fresh = [];
  let counting = false;
  const filter = () => {
    let hidden = 0;
    for (const row of shownMinions.values()) {
      row.line.hidden = failures.checked && row.succeeded;
      hidden += row.line.hidden;
    }
    table.hidden = hidden === shownMinions.size;
    empty.hidden = !table.hidden;
    empty.textContent = shownMinions.size === 0 ? "No minion is known of this job." : "Every minion that has returned has succeeded.";
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
    makeScrollable(fresh);
    fresh = [];
  };
  // Once for all that came meanwhile.
  const tellSoon = () => {
    if (!counting) requestAnimationFrame(tell);
    counting = true;
  };
  const rowOf = (id) => {
    let row = shownMinions.get(id);
    if (!row) {
      const state = cell("State", {});
      const value = cell("Return", { class: "return" });
      row = { state, value, returned: false, isRead: false, succeeded: false };
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
  const remark = (row, text) => row.value.replaceChildren(element("span", { class: "quiet" }, text));
  // An event of a return that is too large for it comes without `value`: the row has it from the job later.
  const put = (id, value, retcode, success) => {
    const row = rowOf(id);
    if (!row.returned) {
      row.returned = true;
      row.succeeded = !retcode && success !== false;
      row.line.classList.add("fresh");
      setState(row, row.succeeded ? "returned" : retcode ? `failed (${retcode})` : "failed", row.succeeded ? "good" : "bad");
      if (value === undefined) remark(row, "Loading …");
      tellSoon();
    }
    if (row.isRead || value === undefined) return;
    row.isRead = true;
    const text = shown(value);
    const pre = element("pre", { "aria-label": `Return of ${id}` }, text);
    if (text === "") remark(row, "empty text");
    else row.value.replaceChildren(pre);
    fresh.push(pre);
    tellSoon();
  };
  for (const id of minions) rowOf(id);
  tell();
  // Before the master has named the minions of an older job, nothing is known of it.
  if (minions.length === 0) empty.textContent = "Loading …";

  const stopListening = listen(({ tag, data }) => {
    const [, kind, id] = partsOf(tag, jid) || [];
    if (!id) return;
    if (kind === "ret") {
      put(id, data.return, data.retcode, data.success);
      if (!rowOf(id).isRead) readSoon();
    }
    const known = kind === "state" ? [String(data.state), "wait"] : STATES[kind];
    const row = rowOf(id);
    if (known && !row.returned) setState(row, ...known);
    tellSoon();
  });
  let reading = null;
  let pause = FIRST_READ_MS;
  const stop = () => {
    stopListening();
    clearTimeout(reading);
    card.remove();
  };
  // What came before the events, and what they have missed.
  const read = async () => {
    const answer = await ask(`jobs/${encodeURIComponent(jid)}`);
    const [info] = answer.info || [];
    about.replaceChildren(...described(jid, info));
    for (const id of info?.Minions || []) rowOf(id);
    for (const [id, found] of Object.entries(info?.Result || {})) put(id, found?.return, found?.retcode, found?.success);
    tell();
  };
  const readLarge = async () => {
    const unread = [...shownMinions.values()].filter((row) => row.returned && !row.isRead);
    let left;
    try {
      await unasked(read);
    } finally {
      left = unread.filter((row) => !row.isRead);
      for (const row of left) remark(row, "The return could not be loaded: open the job again under Jobs.");
      reading = null;
    }
    // Those that came meanwhile.
    if ([...shownMinions.values()].some((row) => row.returned && !row.isRead && !left.includes(row))) readSoon();
  };
  // Once for all that come meanwhile, and ever more seldom: each time the job is read with all its returns.
  const readSoon = () => {
    if (reading !== null || !card.isConnected) return;
    reading = setTimeout(readLarge, pause);
    pause = Math.min(pause * 2, LAST_READ_MS);
  };
  return { stop, read };
}

/** Returns what stands below the name of a job's function. */
function described(jid, info) {
  const began = timeOf(jid);
  const parts = [element("code", {}, jid)];
  if (began) parts.push(` began ${dateAndTime(began)}`);
  if (info?.Target !== undefined) parts.push(` on ${shown(info.Target)}`);
  if (info?.User) parts.push(` by ${info.User}`);
  return parts;
}

/** Returns the kind and the minion of an event of this job. */
function partsOf(tag, jid) {
  const begin = `salt/job/${jid}/`;
  return tag.startsWith(begin) ? /^(\w+)\/(.+)$/.exec(tag.slice(begin.length)) : null;
}

listen(({ tag, data }) => {
  if (!/^salt\/job\/\d+\/new$/.test(tag) || !Array.isArray(data.missing)) return;
  missing.set(data.jid, new Set(data.missing));
  if (missing.size > REMEMBERED) missing.delete(missing.keys().next().value);
});

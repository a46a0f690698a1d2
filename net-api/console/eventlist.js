// The event stream, as a list with the newest first.

import { isOwnRun } from "./api.js";
import { byId, clock, element, makeScrollable, shown } from "./dom.js";
import { listen } from "./events.js";

/** How many events are kept, and how many of them are shown. */
const KEPT = 500;
const SHOWN = 200;

const EMPTY = "None so far: events are listed here from the login on, as they are fired. Who has not all of them sees those of own jobs.";

let kept = [];
/** The events that came since the list was drawn, the newest last. */
let waiting = [];
let drawing = false;

/** Draws the whole list, for a filter. */
export function open() {
  kept = [...waiting.reverse(), ...kept].slice(0, KEPT);
  waiting = [];
  byId("events-rows").replaceChildren(...kept.filter(matches).slice(0, SHOWN).map(row));
  count();
}

function matches({ tag, isOwn }) {
  return tag.startsWith(byId("events-filter").value) && !(isOwn && byId("events-own").checked);
}

function row({ tag, data, at }) {
  const text = element("pre", { "aria-label": `Data of ${tag}` });
  const fill = ({ target }) => {
    text.textContent = target.open ? shown(data) : "";
    if (target.open) makeScrollable([text]);
  };
  const summary = element("summary", {}, element("time", {}, at), " ", element("bdi", {}, tag));
  return element("li", {}, element("details", { ontoggle: fill }, summary, text));
}

/** Puts the events that wait before those that are shown, so that what is open stays open. */
function draw() {
  drawing = false;
  if (byId("events").hidden || byId("events-pause").checked) return count();
  const rows = byId("events-rows");
  const fresh = waiting.reverse();
  waiting = [];
  kept = [...fresh, ...kept].slice(0, KEPT);
  rows.prepend(...fresh.filter(matches).slice(0, SHOWN).map(row));
  while (rows.childElementCount > SHOWN) rows.lastElementChild.remove();
  count();
}

function count() {
  const shownRows = byId("events-rows").childElementCount;
  const held = byId("events-pause").checked ? `, ${waiting.length} held back` : "";
  byId("events-count").textContent = `${shownRows} of ${kept.length} shown${held}`;
  const empty = byId("events-empty");
  empty.hidden = shownRows > 0;
  empty.textContent = kept.length && byId("events-filter").value ? "No event has a tag that begins so." : EMPTY;
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  kept = [];
  waiting = [];
  byId("events-filter").value = "";
  open();
}

export function ready() {
  byId("events-filter").addEventListener("input", open);
  byId("events-own").addEventListener("change", open);
  byId("events-pause").addEventListener("change", draw);
  listen(({ tag, data }) => {
    waiting.push({ tag, data, at: clock(new Date()), isOwn: isOwnRun({ tag, data }) });
    if (waiting.length > KEPT) waiting.shift();
    if (drawing || byId("events").hidden) return;
    drawing = true;
    // Once for all that came meanwhile: a job of many minions is many events.
    requestAnimationFrame(draw);
  });
}

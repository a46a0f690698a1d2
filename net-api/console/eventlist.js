// The event stream, as a list with the newest first.

import { byId, element, shown } from "./dom.js";
import { listen } from "./events.js";

/** How many events are kept, and how many of them are shown. */
const KEPT = 500;
const SHOWN = 200;

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

function matches({ tag }) {
  return tag.startsWith(byId("events-filter").value);
}

function row({ tag, data, at }) {
  const text = element("pre", { tabindex: "0", "aria-label": `Data of ${tag}` });
  const fill = ({ target }) => {
    text.textContent = target.open ? shown(data) : "";
  };
  return element(
    "li",
    {},
    element("details", { ontoggle: fill }, element("summary", {}, element("time", { class: "quiet" }, at), ` ${tag}`), text),
  );
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
  byId("events-count").textContent = `${shownRows} shown of ${kept.length}${held}`;
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
  byId("events-pause").addEventListener("change", draw);
  listen(({ tag, data }) => {
    waiting.push({ tag, data, at: new Date().toLocaleTimeString() });
    if (waiting.length > KEPT) waiting.shift();
    if (drawing || byId("events").hidden) return;
    drawing = true;
    // Once for all that came meanwhile: a job of many minions is many events.
    requestAnimationFrame(draw);
  });
}

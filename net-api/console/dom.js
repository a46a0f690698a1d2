// Makes elements. What comes from minions and from the master becomes text, and never markup: nothing here reads HTML.

/** Makes an element with attributes and children; a child that is no element becomes text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children) {
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

/** Makes a cell; `label` names its column where the window is too narrow for columns. */
export function cell(label, attributes, ...children) {
  return element("td", { "data-label": label, ...attributes }, ...children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Returns a value as an operator reads it. */
export function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Tells an error above the page, or takes it away. */
export function tell(error) {
  const message = byId("message");
  message.hidden = !error;
  message.textContent = error ? error.message || String(error) : "";
}

/** Shows a sentence in the place of a view's table; without one the table. */
export function explain(view, sentence) {
  const place = byId(`${view}-empty`);
  place.hidden = !sentence;
  place.textContent = sentence || "";
  byId(`${view}-table`).hidden = Boolean(sentence);
}

/** Marks an element as busy until the work is done. */
export async function busy(marked, work) {
  marked.setAttribute("aria-busy", "true");
  try {
    return await work();
  } finally {
    marked.removeAttribute("aria-busy");
  }
}

/** Returns a time of this browser's zone, with its date. */
export function dateAndTime(date) {
  const two = (number) => String(number).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${clock(date)}`;
}

/** Returns the time of a day. */
export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((number) => String(number).padStart(2, "0")).join(":");
}

/** Lets the keyboard scroll those of these texts that are taller than their place; no others, so that Tab has few stops. */
export function makeScrollable(texts) {
  const tall = texts.map((text) => text.scrollHeight > text.clientHeight + 1);
  texts.forEach((text, at) => {
    if (!tall[at]) return;
    text.tabIndex = 0;
    text.setAttribute("role", "group");
  });
}

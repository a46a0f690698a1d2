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

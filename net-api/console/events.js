// The event stream of the master, shared by the views.

const listeners = new Set();
let source = null;

/** Calls `listener` with each event, `{tag, data}`, until the function that this returns is called. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Opens the stream. `state` is called with `open`, `away` or `gap`. */
export function open(state) {
  close();
  // The browser sends the cookie of the login, and connects again by itself.
  source = new EventSource("events");
  source.onopen = () => state("open");
  const own = source;
  source.onerror = () => {
    state("away");
    // After an answer that is no stream the browser does not try again.
    if (own.readyState !== EventSource.CLOSED) return;
    setTimeout(() => {
      if (source !== own) return;
      open(state);
      state("gap");
    }, 5000);
  };
  source.onmessage = (message) => {
    let event;
    try {
      event = JSON.parse(message.data);
    } catch {
      return;
    }
    if (typeof event.tag !== "string") return;
    if (event.tag === "salt/netapi/gap") state("gap");
    for (const listener of listeners) listener(event);
  };
}

export function close() {
  if (source) source.close();
  source = null;
}

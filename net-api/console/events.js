// The event stream of the master, shared by the views.

import { parse } from "./api.js";

/** The pause before a stream that was refused is asked for again. */
const AGAIN_MS = 5000;

const listeners = new Set();
let source = null;

/** Calls `listener` with each event, `{tag, data}`, until the function that this returns is called. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Opens the stream. `state` is called with `open`, `away` or `gap`; `refused` when there is no stream, and returns whether the
 * login has ended.
 */
export function open(watcher) {
  close();
  // The browser sends the cookie of the login, and connects again by itself.
  source = new EventSource("events");
  const own = source;
  source.onopen = () => watcher.state("open");
  source.onerror = async () => {
    if (source !== own) return;
    watcher.state("away");
    // After an answer that is no stream the browser does not try again.
    if (own.readyState !== EventSource.CLOSED || (await watcher.refused())) return;
    setTimeout(() => {
      if (source !== own) return;
      open(watcher);
      watcher.state("gap");
    }, AGAIN_MS);
  };
  source.onmessage = (message) => {
    let event;
    try {
      event = parse(message.data);
    } catch {
      return;
    }
    if (typeof event?.tag !== "string" || typeof event.data !== "object" || event.data === null) return;
    if (event.tag === "salt/netapi/gap") watcher.state("gap");
    for (const listener of listeners) listener(event);
  };
}

export function close() {
  if (source) source.close();
  source = null;
}

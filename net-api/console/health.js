// Whether the API and its master answer, which an event stream on which nothing happens does not tell.

import { outage } from "./api.js";

/** The pause between two questions. */
const PAUSE_MS = 3000;

let current = null;

/** Asks again and again, and calls `tell` with each answer: why nothing can be carried out, or null. */
export function watch(tell) {
  stop();
  const own = { timer: null, asking: false };
  current = own;
  const ask = async () => {
    if (own.asking || current !== own) return;
    clearTimeout(own.timer);
    // Nobody looks at it; it is asked at once when somebody does.
    if (!document.hidden) {
      own.asking = true;
      const why = await outage();
      own.asking = false;
      if (current !== own) return;
      tell(why);
    }
    own.timer = setTimeout(ask, PAUSE_MS);
  };
  own.ask = ask;
  own.timer = setTimeout(ask, PAUSE_MS);
}

export function stop() {
  clearTimeout(current?.timer);
  current = null;
}

/** Asks now. */
export function askNow() {
  current?.ask();
}

document.addEventListener("visibilitychange", askNow);

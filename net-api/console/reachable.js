// The minions that the rules of a login name, for a user who may ask the master for no list.

import * as api from "./api.js";
import { optional } from "./guard.js";

/** How many names of rules the master is asked about. */
const ASKED = 50;

/** Returns the ids of the minions on which some rule of this login allows something. */
export async function reachable() {
  const names = [...named(api.login()?.perms)].slice(0, ASKED);
  // A name in a rule is a glob or a regular expression for the whole id.
  const asked = names.flatMap((name) => [ask(name, "glob"), ask(`^(?:${name})$`, "pcre")]);
  return new Set((await Promise.all(asked)).flat());
}

/** Returns the names of minions in rules; a function that stands alone is allowed on all. */
function named(perms) {
  const names = new Set();
  for (const rule of Array.isArray(perms) ? perms : []) {
    const own = typeof rule === "string" ? [rule.startsWith("@") ? "" : "*"] : Object.keys(rule || {});
    for (const name of own) if (name && !name.startsWith("@")) names.add(name);
  }
  return names;
}

async function ask(tgt, tgt_type) {
  const answer = await optional(api.ask(`targets?${new URLSearchParams({ tgt, tgt_type })}`));
  return answer?.return?.[0] || [];
}

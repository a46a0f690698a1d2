// The command box: a function with its arguments, on the minions of a target.

import * as api from "./api.js";
import { command } from "./command.js";
import { busy, byId } from "./dom.js";
import { guarded } from "./guard.js";
import { closeJob, openJob } from "./job.js";

/** How many minions are named in a preview. */
const NAMED = 50;

export function open() {
  byId("run-form").tgt.focus();
}

/** Returns the target of the form. */
function target() {
  const { tgt, tgt_type } = byId("run-form");
  const kind = tgt_type.value;
  const ids = () => tgt.value.split(",").map((id) => id.trim()).filter(Boolean).join(",");
  return { tgt: kind === "list" ? ids() : tgt.value.trim(), tgt_type: kind };
}

async function preview() {
  tell("Asking the master …");
  const answer = await api.ask(`targets?${new URLSearchParams(target())}`);
  const ids = answer.return[0];
  const named = `${ids.slice(0, NAMED).join(", ")}${ids.length > NAMED ? ", …" : ""}`;
  tell(
    ids.length
      ? `${ids.length} ${ids.length === 1 ? "minion matches" : "minions match"}: ${named}`
      : "No minion matches this target.",
  );
}

async function run() {
  const call = command(byId("run-form").command.value);
  // What another command returned would be read as the return of this one.
  closeJob();
  tell("Starting …");
  const begun = await api.run({ client: "local_async", ...target(), ...call });
  if (!begun || !begun.jid) return tell("No minion matches this target: nothing was run.");
  tell("");
  await openJob(byId("run-job"), begun.jid, call.fun, begun.minions || []);
}

function tell(text) {
  byId("run-minions").textContent = text;
}

/** Does what a button asks for; the form says that something is under way, and what failed leaves no sentence behind. */
function carryOut(work) {
  return guarded(() =>
    busy(byId("run-form"), async () => {
      try {
        await work();
      } catch (error) {
        tell("");
        throw error;
      }
    }),
  );
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  byId("run-form").reset();
  tell("");
}

export function ready() {
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    carryOut(run);
  });
  byId("run-preview").addEventListener("click", () => carryOut(preview));
}

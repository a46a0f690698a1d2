// The command box: a function with its arguments, on the minions of a target.

import * as api from "./api.js";
import { command } from "./command.js";
import { byId } from "./dom.js";
import { guarded } from "./guard.js";
import { openJob } from "./job.js";

/** How many minions are named in a preview. */
const NAMED = 50;

export function open() {
  byId("run-form").tgt.focus();
}

async function preview() {
  const form = byId("run-form");
  const query = new URLSearchParams({ tgt: form.tgt.value, tgt_type: form.tgt_type.value });
  const answer = await api.ask(`targets?${query}`);
  const ids = answer.return[0];
  const named = `${ids.slice(0, NAMED).join(", ")}${ids.length > NAMED ? ", …" : ""}`;
  byId("run-minions").textContent = ids.length
    ? `${ids.length} ${ids.length === 1 ? "minion matches" : "minions match"}: ${named}`
    : "No minion matches.";
}

async function run() {
  const form = byId("run-form");
  const { fun, arg, kwarg } = command(form.command.value);
  const tgt = form.tgt_type.value === "list" ? form.tgt.value.split(",").map((id) => id.trim()) : form.tgt.value;
  const begun = await api.run({ client: "local_async", tgt, tgt_type: form.tgt_type.value, fun, arg, kwarg });
  if (!begun || !begun.jid) {
    byId("run-minions").textContent = "No minion matches: nothing was run.";
    return;
  }
  byId("run-minions").textContent = "";
  await openJob(byId("run-job"), begun.jid, fun, begun.minions || []);
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  byId("run-form").reset();
  byId("run-minions").textContent = "";
  byId("run-job").replaceChildren();
}

export function ready() {
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(run);
  });
  byId("run-preview").addEventListener("click", () => guarded(preview));
}

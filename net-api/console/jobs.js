// The jobs that the master keeps, the newest first.

import * as api from "./api.js";
import { byId, cell, dateAndTime, element, explain, shown } from "./dom.js";
import { listen } from "./events.js";
import { guarded } from "./guard.js";
import { closeJob, openJob, timeOf } from "./job.js";

/** How many jobs are shown. */
const SHOWN = 200;

export async function open() {
  const place = byId("jobs-rows");
  if (place.childElementCount === 0) explain("jobs", "Loading …");
  const found = await api.runner("jobs.list_jobs", { limit: SHOWN }).catch((error) => {
    if (place.childElementCount === 0) explain("jobs", "The jobs could not be loaded.");
    throw error;
  });
  const jobs = Object.entries(found || {}).sort().reverse();
  place.replaceChildren(...jobs.map(([jid, job]) => row(jid, job)));
  const count = jobs.length === 1 ? "1 job" : `${jobs.length} jobs`;
  byId("jobs-count").textContent = jobs.length < SHOWN ? count : `the newest ${SHOWN} jobs`;
  byId("jobs-refresh").textContent = "Refresh";
  explain("jobs", jobs.length ? "" : "No job is kept yet. What is run under Run, or by saline, is listed here.");
}

function row(jid, job) {
  const fun = job.Function || "";
  const began = timeOf(jid);
  const show = () => guarded(() => go(jid, fun));
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, element("button", { type: "button", class: "link", id: `job-${jid}`, onclick: show }, jid)),
    cell("Function", {}, element("code", {}, fun)),
    cell("Target", {}, shown(job.Target ?? "")),
    cell("User", {}, job.User || ""),
    cell("Began", { class: "time" }, began ? dateAndTime(began) : job.StartTime || ""),
  );
}

/** Shows a job above the table, and goes there. */
async function go(jid, fun) {
  const place = byId("jobs-job");
  const opening = openJob(place, jid, fun, [], () => {
    (byId(`job-${jid}`) || byId("jobs-title")).focus();
  });
  const title = place.querySelector("h3");
  title.focus({ preventScroll: true });
  title.scrollIntoView({ block: "start" });
  await opening;
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  byId("jobs-rows").replaceChildren();
  byId("jobs-count").textContent = "";
  closeJob();
}

export function ready() {
  byId("jobs-refresh").addEventListener("click", () => guarded(open));
  listen(({ tag }) => {
    // The table stays as it is: whoever is about to choose a job chooses that one.
    if (/^salt\/job\/\d+\/new$/.test(tag) && !byId("jobs").hidden) {
      byId("jobs-refresh").textContent = "Refresh: there are newer jobs";
    }
  });
}

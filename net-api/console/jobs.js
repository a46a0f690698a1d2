// The jobs that the master keeps, the newest first.

import * as api from "./api.js";
import { byId, element, shown } from "./dom.js";
import { listen } from "./events.js";
import { guarded } from "./guard.js";
import { openJob } from "./job.js";

/** How many jobs are shown. */
const SHOWN = 200;

export async function open() {
  const found = await api.runner("jobs.list_jobs", { limit: SHOWN });
  const jobs = Object.entries(found || {}).sort().reverse();
  byId("jobs-rows").replaceChildren(
    ...jobs.map(([jid, job]) => {
      const fun = job.Function || "";
      const show = () => guarded(() => go(jid, fun));
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, element("button", { type: "button", class: "link", onclick: show }, jid)),
        element("td", {}, element("code", {}, fun)),
        element("td", {}, shown(job.Target ?? "")),
        element("td", {}, job.User || ""),
        element("td", {}, job.StartTime || ""),
      );
    }),
  );
  byId("jobs-count").textContent = jobs.length < SHOWN ? `${jobs.length} jobs` : `the newest ${SHOWN} jobs`;
  byId("jobs-refresh").textContent = "Refresh";
}

/** Shows a job below the table, and goes there. */
async function go(jid, fun) {
  const place = byId("jobs-job");
  const opening = openJob(place, jid, fun, []);
  const title = place.querySelector("h3");
  title.focus({ preventScroll: true });
  await opening;
  title.scrollIntoView({ block: "start" });
}

/** Forgets what was shown to who was logged in. */
export function forget() {
  byId("jobs-rows").replaceChildren();
  byId("jobs-job").replaceChildren();
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

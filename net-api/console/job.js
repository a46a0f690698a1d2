// One job, which fills in as its returns arrive.

import { ask } from "./api.js";
import { element, shown } from "./dom.js";
import { listen } from "./events.js";

/** Shows a job below `place`, with the minions that are known of it. Returns a function that ends the watching. */
export function watch(place, jid, fun, minions) {
  const rows = element("tbody");
  const bar = element("progress", { "aria-label": "Minions that have returned" });
  const count = element("span", { role: "status" });
  const shownMinions = new Map();
  place.replaceChildren(
    element("h3", {}, `${fun} `, element("code", {}, jid)),
    element("p", {}, bar, " ", count),
    element(
      "table",
      {},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ...["Minion", "State", "Return"].map((name) => element("th", { scope: "col" }, name)),
        ),
      ),
      rows,
    ),
  );

  const tellCount = () => {
    const returned = [...shownMinions.values()].filter((row) => row.returned).length;
    bar.max = Math.max(shownMinions.size, 1);
    bar.value = returned;
    count.textContent = `${returned} of ${shownMinions.size} returned`;
  };
  const rowOf = (id) => {
    let row = shownMinions.get(id);
    if (!row) {
      const state = element("td", { class: "state wait" }, "waiting");
      const value = element("td");
      row = { state, value, returned: false, line: element("tr", {}, element("th", { scope: "row" }, id), state, value) };
      shownMinions.set(id, row);
      rows.append(row.line);
    }
    return row;
  };
  const put = (id, value, retcode) => {
    const row = rowOf(id);
    if (row.returned) return;
    row.returned = true;
    row.line.classList.add("fresh");
    const failed = Boolean(retcode);
    row.state.className = `state ${failed ? "bad" : "good"}`;
    row.state.textContent = failed ? `failed (${retcode})` : "returned";
    row.value.replaceChildren(element("pre", { tabindex: "0", "aria-label": `Return of ${id}` }, shown(value)));
    tellCount();
  };
  for (const id of minions) rowOf(id);
  tellCount();

  const stop = listen(({ tag, data }) => {
    const [, , ofJob, kind, id] = tag.split("/");
    if (ofJob === jid && kind === "ret" && tag.startsWith("salt/job/")) put(id, data.return, data.retcode);
  });
  // What came before the events, and what they have missed.
  const read = async () => {
    const answer = await ask(`jobs/${encodeURIComponent(jid)}`);
    const [info] = answer.info || [];
    for (const id of (info && info.Minions) || []) rowOf(id);
    for (const [id, found] of Object.entries((info && info.Result) || answer.return[0] || {})) {
      const whole = found !== null && typeof found === "object" && "return" in found;
      put(id, whole ? found.return : found, whole ? found.retcode : 0);
    }
    tellCount();
  };
  return { stop, read };
}

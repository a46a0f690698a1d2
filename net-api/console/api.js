// Speaks with saline-api: each request with the token of the login, each answer read as JSON.

const STORED = "saline-login";

/** The API answered with an error. */
export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Returns the login of this tab, or none. It is gone when the tab is closed. */
export function login() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORED));
    return stored && stored.expire * 1000 > Date.now() ? stored : null;
  } catch {
    return null;
  }
}

export async function logIn(fields) {
  const answer = await ask("login", { ...fields });
  const [granted] = answer.return;
  sessionStorage.setItem(STORED, JSON.stringify(granted));
  return granted;
}

export async function logOut() {
  try {
    await ask("logout", {});
  } finally {
    sessionStorage.removeItem(STORED);
  }
}

export function forget() {
  sessionStorage.removeItem(STORED);
}

/** Reads JSON. A number that JavaScript would write in another way, such as a large one, stays as it was written. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const source = typeof value === "number" ? context?.source : undefined;
    return source === undefined || source === String(value) || !JSON.rawJSON ? value : JSON.rawJSON(source);
  });
}

/** Asks for `path`; with `body` as a POST. */
export async function ask(path, body) {
  const headers = { Accept: "application/json" };
  const held = login();
  if (held) headers["X-Auth-Token"] = held.token;
  const options = { headers, cache: "no-store" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.method = "POST";
    options.body = JSON.stringify(body);
  }
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch {
    throw new ApiError(0, "saline-api does not answer: is it running, and is the network there?");
  }
  let read;
  try {
    read = parse(text);
  } catch {
    read = null;
  }
  if (!answer.ok) {
    const why = read && (read.error || read.return || read.message);
    throw new ApiError(answer.status, typeof why === "string" ? why : text || `status ${answer.status}`);
  }
  return read;
}

/** How long the API may take to say whether its master answers. */
const READY_MS = 10_000;

/** Returns why no request can be carried out now; none when the master answers. */
export async function outage() {
  let answer;
  try {
    answer = await fetch("readyz", {
      headers: { Accept: "application/json" },
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(READY_MS),
    });
  } catch {
    return "the program saline-api does not answer";
  }
  if (answer.ok) return null;
  try {
    const { return: why } = await answer.json();
    return typeof why === "string" ? why : `the program saline-api answers with status ${answer.status}`;
  } catch {
    return `the program saline-api answers with status ${answer.status}`;
  }
}

/** The functions of the master that this page has asked for, as events name them; the first are what `/jobs` and `/keys` run. */
const asked = new Set(["runner.jobs.list_jobs", "runner.jobs.list_job", "wheel.key.list_all"]);

/** Whether an event is of a run on the master that this page began, or one like it of the same user. */
export function isOwnRun({ tag, data }) {
  return /^salt\/(run|wheel)\//.test(tag) && asked.has(data.fun) && data.user === login()?.user;
}

/** Runs one chunk of a low state and returns what it gave. */
export async function run(chunk) {
  asked.add(`${chunk.client}.${chunk.fun}`);
  const answer = await ask("./", [chunk]);
  return answer.return[0];
}

/** Runs a function of the master. */
export function runner(fun, kwarg = {}) {
  return run({ client: "runner", fun, kwarg });
}

/** Asks for something about keys; returns what it gave. */
export async function wheel(fun, kwarg = {}) {
  const answer = await run({ client: "wheel", fun, ...kwarg });
  const data = answer && answer.data;
  if (!data || data.success === false) {
    throw new ApiError(200, data ? String(data.return) : "the master gave no answer");
  }
  return data.return;
}

// Runs what may fail, tells why it did, and notices that the login has ended.

import * as api from "./api.js";
import { tell } from "./dom.js";

let leave = () => {};

/** Sets what is done when the login has ended. */
export function onLoginEnd(listener) {
  leave = listener;
}

/** Runs something that may fail; tells why it did, and asks for a login when there is none any more. */
export async function guarded(work) {
  try {
    tell(null);
    await work();
  } catch (error) {
    if (error.status !== 401 || !(await leaveWithoutLogin())) tell(error);
  }
}

/** Asks for a login if there is none any more. Returns whether that is so: a 401 also says that a rule is missing. */
export async function leaveWithoutLogin() {
  try {
    await api.ask("stats");
    return false;
  } catch (error) {
    if (error.status !== 401) return false;
    leave("The login has ended: log in again.");
    return true;
  }
}

/** Returns what a request gives, or none where no rule allows it. */
export async function optional(request) {
  try {
    const given = await request;
    return given && typeof given === "object" ? given : null;
  } catch (error) {
    if (error.status === 401 || error.status === 400) return null;
    throw error;
  }
}

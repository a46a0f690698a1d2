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

/** Runs something that nobody asked for: a message that somebody reads stays, and a master that is away is told elsewhere. */
export async function unasked(work) {
  try {
    await work();
  } catch (error) {
    if (error.status === 401) await leaveWithoutLogin();
    else if (!(error instanceof api.ApiError)) throw error;
  }
}

/**
 * Asks for a login if there is none any more. Returns whether that is so: a 401 also says that a rule is missing, or that the master
 * takes no orders from this API.
 */
export async function leaveWithoutLogin() {
  try {
    await api.ask("stats");
    return false;
  } catch (error) {
    if (error.status !== 401) return false;
  }
  if ((await api.outage()) !== null) return false;
  leave("The login has ended: log in again.");
  return true;
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

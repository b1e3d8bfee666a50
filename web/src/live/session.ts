/** Who uses the page. */

import { signal } from "@preact/signals";
import { ApiError, call, http, type Schemas } from "../api/client";
import { serverSays } from "./clock";
import { connect, disconnect } from "./connection";

export type Session = Schemas["SessionAnswer"];
export type Permission = Session["allowed"][number];

/** Not known before the first answer. */
export const session = signal<Session | undefined>(undefined);
/** Why there is no session yet: no master answers. */
export const unreachable = signal<string | undefined>(undefined);
const AGAIN = 2000;

export async function loadSession(): Promise<void> {
    try {
        begin(await call(http.GET("/session")));
        unreachable.value = undefined;
    } catch (error) {
        unreachable.value = error instanceof ApiError ? error.message : String(error);
        setTimeout(() => void loadSession(), AGAIN);
    }
}

/** Throws ApiError with the reason for a refusal. */
export async function logIn(token: string): Promise<void> {
    begin(await call(http.POST("/session", { body: { token } })));
}

export async function logOut(): Promise<void> {
    disconnect();
    begin(await call(http.DELETE("/session")));
}

/** A request was refused for want of a session: it has expired, or the token was revoked. */
export function sessionEnded(): void {
    const known = session.value;
    if (known === undefined || known.role === null) return;
    disconnect();
    session.value = { ...known, role: null, allowed: [] };
}

export function may(permission: Permission): boolean {
    return session.value?.allowed.includes(permission) ?? false;
}

function begin(answer: Session): void {
    serverSays(answer.now);
    session.value = answer;
    // The stream tells of all jobs, so it needs a role that may read them all.
    if (answer.allowed.includes("read")) connect();
}

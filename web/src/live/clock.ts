/** The time of the server. A wrong clock of the visitor shifts nothing on the page. */

import { signal } from "@preact/signals";

let offset = 0;

export function serverNow(): number {
    return Date.now() + offset;
}

export function serverSays(at: number): void {
    offset = at - Date.now();
    now.value = serverNow();
}

/** Ticks once a second while the page is seen, for everything that shows an age. */
export const now = signal(Date.now());

export function startClock(): void {
    setInterval(() => {
        if (!document.hidden) now.value = serverNow();
    }, 1000);
    document.addEventListener("visibilitychange", () => {
        now.value = serverNow();
    });
}

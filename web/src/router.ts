/** The view that is shown: everything that can be chosen is in the address. */

import { signal } from "@preact/signals";
import { hashOf, parseRoute, type Route } from "./model/route";

export const route = signal<Route>(parseRoute(location.hash));

window.addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
});

/** Changes the query of the present view. With `replace`, going back skips the old one. */
export function choose(changes: Record<string, string>, { replace = false } = {}): void {
    const { path, query } = route.value;
    const hash = hashOf({ path, query: { ...query, ...changes } });
    if (replace) {
        history.replaceState(null, "", hash);
        route.value = parseRoute(hash);
    } else {
        location.hash = hash;
    }
}

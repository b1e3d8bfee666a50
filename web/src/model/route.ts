/** Which view the address names: everything after `#`, such as `/jobs/1a2b?tab=logs`. */

export interface Route {
    /** `["jobs", "1a2b"]`; empty for the overview. */
    path: string[];
    query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
    const text = hash.replace(/^#/, "");
    const mark = text.indexOf("?");
    const path = (mark < 0 ? text : text.slice(0, mark)).split("/").filter(Boolean).map(decoded);
    const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
    return { path, query };
}

export function hashOf(route: { path: readonly string[]; query?: Record<string, string> }): string {
    const entries = Object.entries(route.query ?? {}).filter(([, value]) => value !== "");
    const query = new URLSearchParams(entries).toString();
    return `#/${route.path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

function decoded(part: string): string {
    try {
        return decodeURIComponent(part);
    } catch {
        // Somebody cut the address off; what is left names nothing, and the view says so.
        return part;
    }
}

/** The filter field of the job list: words such as `state:failed queue:nightly orders`. */

export interface JobFilter {
    states: string[];
    types: string[];
    owners: string[];
    /** Part of the name, or the beginning of the id. */
    text: string;
}

export const NO_FILTER: JobFilter = { states: [], types: [], owners: [], text: "" };

type ListKey = "states" | "types" | "owners";
const KEYS: Record<string, ListKey> = { state: "states", type: "types", owner: "owners" };

export interface Parsed {
    filter: JobFilter;
    /** What cannot be understood, as sentences. */
    faults: string[];
}

/** Words without a known key are part of the name; several words are one text with a space. */
export function parseFilter(
    text: string,
    known: { states: readonly string[]; types: readonly string[] },
): Parsed {
    const filter: JobFilter = { states: [], types: [], owners: [], text: "" };
    const faults: string[] = [];
    const rest: string[] = [];
    for (const word of text.split(/\s+/).filter(Boolean)) {
        const colon = word.indexOf(":");
        const key = colon > 0 ? word.slice(0, colon).toLowerCase() : "";
        const list = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined;
        if (list === undefined) {
            rest.push(word);
            continue;
        }
        for (const value of word
            .slice(colon + 1)
            .split(",")
            .filter(Boolean)) {
            const wanted = list === "owners" ? value : spelled(value.toUpperCase());
            const allowed =
                list === "states" ? known.states : list === "types" ? known.types : undefined;
            if (allowed !== undefined && !allowed.includes(wanted)) {
                faults.push(
                    `There is no ${key} “${value}”. Known: ${allowed.join(", ").toLowerCase()}.`,
                );
            } else if (!filter[list].includes(wanted)) {
                filter[list].push(wanted);
            }
        }
    }
    filter.text = rest.join(" ");
    return { filter, faults };
}

/** People write the British form, the API has the American one. */
function spelled(state: string): string {
    return state === "CANCELLED" ? "CANCELED" : state;
}

export function filterText(filter: JobFilter): string {
    const words = Object.entries(KEYS)
        .filter(([, list]) => filter[list].length > 0)
        .map(([key, list]) => {
            const values =
                list === "owners" ? filter[list] : filter[list].map((v) => v.toLowerCase());
            return `${key}:${values.join(",")}`;
        });
    return [...words, filter.text].filter(Boolean).join(" ");
}

export function isEmpty(filter: JobFilter): boolean {
    return filterText(filter) === "";
}

/** The filter without one of its parts, for the chip that removes it. */
export function without(filter: JobFilter, list: ListKey | "text", value?: string): JobFilter {
    if (list === "text") return { ...filter, text: "" };
    return { ...filter, [list]: filter[list].filter((each) => each !== value) };
}

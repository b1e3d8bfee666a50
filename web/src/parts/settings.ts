/** What a visitor has chosen, kept by the browser and checked when it is read. */

import { effect, signal } from "@preact/signals";
import type { Zone } from "../model/format";

export type Theme = "system" | "light" | "dark";

function kept<T extends string>(key: string, allowed: readonly T[], otherwise: T) {
    const name = `stoker.${key}`;
    let found: string | null = null;
    try {
        found = localStorage.getItem(name);
    } catch {
        // Some browsers refuse storage altogether; then the choice lasts as long as the page.
    }
    const value = signal<T>(allowed.find((each) => each === found) ?? otherwise);
    effect(() => {
        try {
            localStorage.setItem(name, value.value);
        } catch {}
    });
    return value;
}

export const THEMES = ["system", "light", "dark"] as const;
export const ZONES = ["local", "utc"] as const;
export const theme = kept<Theme>("theme", THEMES, "system");
export const zone = kept<Zone>("zone", ZONES, "local");

effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
});

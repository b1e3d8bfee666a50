import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { contrast, difference, SIGHTS } from "./palette";

const css = readFileSync(new URL("../src/styles/tokens.css", import.meta.url), "utf8");
const tokens = new Map(
    [...css.matchAll(/--([a-z]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
        ([, name, light, dark]) => [
            name as string,
            { light: light as string, dark: dark as string },
        ],
    ),
);
const STATES = ["running", "finished", "failed", "restarting", "quarantined", "idle"];

function colour(name: string, theme: "light" | "dark"): string {
    const found = tokens.get(name);
    if (found === undefined) throw new Error(`tokens.css has no colour ${name}`);
    return found[theme];
}

describe.each(["light", "dark"] as const)("the %s colours", (theme) => {
    it.each(["text", "muted", "link", ...STATES])("%s can be read on page and panel", (name) => {
        for (const surface of ["page", "panel"]) {
            expect(contrast(colour(name, theme), colour(surface, theme))).toBeGreaterThanOrEqual(
                4.5,
            );
        }
    });

    it("the border of a control can be seen", () => {
        for (const surface of ["page", "panel"]) {
            expect(
                contrast(colour("control", theme), colour(surface, theme)),
            ).toBeGreaterThanOrEqual(3);
        }
    });

    it.each(SIGHTS)("no two states look alike in %s vision", (sight) => {
        for (const [place, one] of STATES.entries()) {
            for (const other of STATES.slice(place + 1)) {
                const apart = difference(colour(one, theme), colour(other, theme), sight);
                expect(apart, `${one} and ${other}`).toBeGreaterThanOrEqual(14);
            }
        }
    });
});

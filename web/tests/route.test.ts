import { describe, expect, it } from "vitest";
import { hashOf, parseRoute } from "../src/model/route";

describe("the address of a view", () => {
    it.each([
        { path: [], query: {} },
        { path: ["jobs"], query: { filter: "state:failed a&b=c #1" } },
        { path: ["jobs", "1a2b/../c d"], query: {} },
    ])("is read as it was written: %j", (route) => {
        expect(parseRoute(hashOf(route))).toEqual(route);
    });

    it("of a cut link names something, and never throws", () => {
        expect(parseRoute("#/jobs/%E4%")).toEqual({ path: ["jobs", "%E4%"], query: {} });
        expect(parseRoute("")).toEqual({ path: [], query: {} });
    });
});

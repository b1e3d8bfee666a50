import { describe, expect, it } from "vitest";
import { filterText, isEmpty, parseFilter, without } from "../src/model/filters";
import { STATES } from "../src/model/states";

const KNOWN = { states: STATES, types: ["BATCH", "STREAMING"] };
const parse = (text: string) => parseFilter(text, KNOWN);

describe("the filter field", () => {
    it("takes keys, lists and a part of the name", () => {
        const { filter, faults } = parse("state:failed,running type:batch owner:ana daily orders");
        expect(faults).toEqual([]);
        expect(filter).toEqual({
            states: ["FAILED", "RUNNING"],
            types: ["BATCH"],
            owners: ["ana"],
            text: "daily orders",
        });
    });

    it("says what it does not understand", () => {
        const { filter, faults } = parse("state:broken orders");
        expect(filter.states).toEqual([]);
        expect(filter.text).toBe("orders");
        expect(faults).toHaveLength(1);
        expect(faults[0]).toContain("“broken”");
    });

    it("accepts both spellings of cancelled", () => {
        expect(parse("state:cancelled").filter.states).toEqual(["CANCELED"]);
    });

    it("takes a word with a colon that is no key as part of the name", () => {
        expect(parse("a:b constructor:c").filter.text).toBe("a:b constructor:c");
    });

    it("is the same after it was written down", () => {
        const { filter } = parse("type:streaming state:running,failed owner:a,b some name");
        expect(parse(filterText(filter)).filter).toEqual(filter);
    });

    it("loses a part when its chip is removed", () => {
        const { filter } = parse("state:failed,running x");
        expect(filterText(without(filter, "states", "FAILED"))).toBe("state:running x");
        expect(
            isEmpty(without(without(parse("state:failed x").filter, "text"), "states", "FAILED")),
        ).toBe(true);
    });
});

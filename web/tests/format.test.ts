import { describe, expect, it } from "vitest";
import {
    ago,
    bytes,
    duration,
    exact,
    moment,
    plural,
    short,
    shortened,
    visible,
} from "../src/model/format";

const plain = (text: string) => text.replaceAll("\u2009", " ");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe("numbers", () => {
    it.each([
        [0, "0"],
        [0.125, "0.13"],
        [7, "7"],
        [12.44, "12.4"],
        [999, "999"],
        [999.7, "1 k"],
        [1000, "1 k"],
        [12_400, "12.4 k"],
        [999_600, "1 M"],
        [1_234_567_890, "1.23 G"],
        [-12_400, "−12.4 k"],
    ])("%d has three significant digits: %s", (value, text) => {
        expect(plain(short(value))).toBe(text);
    });

    it("what is not known is a dash, never 0", () => {
        expect(short(null)).toBe("–");
        expect(bytes(undefined)).toBe("–");
        expect(duration(Number.NaN)).toBe("–");
    });

    it("exact numbers keep all their digits", () => {
        expect(plain(exact(1234567.5))).toBe("1 234 567.5");
        expect(plain(exact(-1234))).toBe("−1 234");
        expect(exact(999)).toBe("999");
    });

    it.each([
        [0, "0 B"],
        [1023, "1 KiB"],
        [1536, "1.5 KiB"],
        [3_355_443, "3.2 MiB"],
        [5 * 1024 ** 4, "5 TiB"],
    ])("%d bytes are %s", (value, text) => {
        expect(plain(bytes(value))).toBe(text);
    });

    it("a word follows its count", () => {
        expect(plural(1, "job")).toBe("1 job");
        expect(plural(0, "job")).toBe("0 jobs");
        expect(plural(2, "query", "queries")).toBe("2 queries");
    });
});

describe("times", () => {
    it.each([
        [812, "812 ms"],
        [4_250, "4.2 s"],
        [59_990, "59.9 s"],
        [61_000, "1 min 01 s"],
        [HOUR + 4 * MINUTE, "1 h 04 min"],
        [51 * HOUR, "2 d 3 h"],
        [-1, "–"],
    ])("%d ms last %s", (value, text) => {
        expect(plain(duration(value))).toBe(text);
    });

    it("an age is relative up to a day, then a date", () => {
        const now = Date.UTC(2026, 10, 12, 12, 0, 0);
        expect(ago(now - 2_000, now)).toBe("just now");
        expect(plain(ago(now - 30_000, now))).toBe("30 s ago");
        expect(plain(ago(now - 3 * MINUTE, now))).toBe("3 min ago");
        expect(plain(ago(now - 23 * HOUR, now))).toBe("23 h ago");
        expect(ago(now - 25 * HOUR, now, "utc")).toBe("2026-11-11 11:00:00 UTC");
    });

    it("what lies ahead is not called past", () => {
        const now = Date.UTC(2026, 10, 12);
        expect(ago(now + HOUR, now, "utc")).toBe("2026-11-12 01:00:00 UTC");
        expect(ago(now + 1000, now)).toBe("just now");
    });

    it("a moment can have milliseconds", () => {
        expect(moment(Date.UTC(2026, 0, 2, 3, 4, 5, 6), "utc", true)).toBe(
            "2026-01-02 03:04:05.006 UTC",
        );
        expect(moment(Number.NaN)).toBe("–");
    });
});

describe("texts of strangers", () => {
    it("marks that turn the direction of a text are shown", () => {
        expect(visible("a\u202eb\u0000")).toBe("a⟨202E⟩b⟨0000⟩");
    });

    it("a long text is cut between letters, not inside of one", () => {
        expect(shortened("😀😀😀😀", 3)).toBe("😀😀…");
        expect(shortened("short", 10)).toBe("short");
        expect(shortened("x".repeat(10_000), 40)).toHaveLength(40);
    });
});

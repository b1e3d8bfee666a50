import { describe, expect, it } from "vitest";
import { pauseAfter } from "../src/model/backoff";
import { EventReader } from "../src/model/sse";

const TEXT =
    ': alive\n\nid: 7-42\nevent: log\ndata: {"a":1}\ndata: more\n\nretry: 1000\n\ndata: x\n\n';
const EVENTS = [
    { kind: "log", data: '{"a":1}\nmore', id: "7-42" },
    { kind: "message", data: "x", id: "7-42" },
];

describe("server-sent events", () => {
    it("are the same wherever the network cuts them", () => {
        for (let cut = 0; cut <= TEXT.length; cut += 1) {
            const reader = new EventReader();
            const events = [...reader.add(TEXT.slice(0, cut)), ...reader.add(TEXT.slice(cut))];
            expect(events).toEqual(EVENTS);
        }
    });

    it("may end their lines as on any system", () => {
        expect(new EventReader().add(TEXT.replaceAll("\n", "\r\n"))).toEqual(EVENTS);
    });

    it("never fill the memory with one line", () => {
        const reader = new EventReader();
        expect(() => {
            for (let piece = 0; piece < 10; piece += 1) reader.add("x".repeat(1_000_000));
        }).toThrow("too long");
    });
});

describe("the pause before the next try", () => {
    it("grows, and stays bounded", () => {
        const pauses = [0, 1, 2, 3, 20, 2000].map((failures) => pauseAfter(failures, 0.5));
        expect(pauses).toEqual([500, 1000, 2000, 4000, 15_000, 15_000]);
    });

    it("differs from page to page", () => {
        expect(pauseAfter(3, 0)).toBe(3000);
        expect(pauseAfter(3, 1)).toBe(5000);
    });
});

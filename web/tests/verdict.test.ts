import { describe, expect, it } from "vitest";
import { type Facts, type JobRow, needsOf, verdictOf } from "../src/model/verdict";

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

function job(changes: Partial<JobRow> = {}): JobRow {
    return {
        id: "a".repeat(32),
        name: "orders",
        state: "RUNNING",
        type: "BATCH",
        start: NOW - 20 * MINUTE,
        lastChange: NOW - 20 * MINUTE,
        restarts: 0,
        done: 1,
        tasks: 1,
        ...changes,
    };
}

function facts(changes: Partial<Facts> = {}): Facts {
    return {
        cluster: { running: 41, waiting: 3, slotsTotal: 16, slotsFree: 4, executors: 2 },
        jobs: [],
        quarantined: [],
        now: NOW,
        ...changes,
    };
}

describe("the verdict", () => {
    it("is one sentence with the work when all is well", () => {
        expect(verdictOf(facts())).toEqual({
            tone: "well",
            sentence: "All well. 41 jobs run, 3 wait, 12 of 16 slots in use.",
        });
    });

    it("speaks of one job and of none", () => {
        const idle = { running: 0, waiting: 0, slotsTotal: 1, slotsFree: 1, executors: 1 };
        expect(verdictOf(facts({ cluster: idle })).sentence).toBe(
            "All well. No job runs, 0 of 1 slot in use.",
        );
        const one = { ...idle, running: 1, slotsFree: 0 };
        expect(verdictOf(facts({ cluster: one })).sentence).toContain("1 job runs, 1 of 1 slot");
    });

    it("names jobs that need somebody first", () => {
        const failed = job({ state: "FAILED", end: NOW - MINUTE });
        const verdict = verdictOf(facts({ jobs: [failed] }));
        expect(verdict.tone).toBe("bad");
        expect(verdict.sentence).toMatch(/^1 job needs you\. 41 jobs run/);
    });

    it("says that nothing can run without a task executor", () => {
        const cluster = { running: 0, waiting: 2, slotsTotal: 0, slotsFree: 0, executors: 0 };
        expect(verdictOf(facts({ cluster })).sentence).toMatch(/^No task executor is registered/);
    });
});

describe("what needs somebody", () => {
    it("forgets failures after an hour", () => {
        expect(
            needsOf(facts({ jobs: [job({ state: "FAILED", end: NOW - 61 * MINUTE })] })),
        ).toEqual([]);
    });

    it("forgets a failure when the job was run again", () => {
        const failed = job({ id: "f", state: "FAILED", end: NOW - MINUTE });
        const again = job({ id: "a", state: "FINISHED", start: NOW - 1000, end: NOW });
        expect(needsOf(facts({ jobs: [failed, again] }))).toEqual([]);
        expect(needsOf(facts({ jobs: [failed, { ...again, name: "other" }] }))).toHaveLength(1);
    });

    it("names a job that fails again and again, until it has settled", () => {
        const looping = job({ restarts: 4, lastChange: NOW - 2000 });
        expect(needsOf(facts({ jobs: [looping] }))[0]?.sentence).toContain("again and again");
        expect(needsOf(facts({ jobs: [{ ...looping, restarts: 1 }] }))).toEqual([]);
        expect(needsOf(facts({ jobs: [{ ...looping, lastChange: NOW - 10 * MINUTE }] }))).toEqual(
            [],
        );
    });

    it("does not mention a short wait or a quick restart", () => {
        const waiting = job({ waitsFor: "a slot", start: NOW - MINUTE });
        const restarting = job({ state: "RESTARTING", lastChange: NOW - 2000 });
        expect(needsOf(facts({ jobs: [waiting, restarting] }))).toEqual([]);
    });

    it("has the worst first, and the newest of equals", () => {
        const jobs = [
            job({ id: "w", name: "waits", waitsFor: "a slot" }),
            job({ id: "r", name: "restarts", state: "RESTARTING", lastChange: NOW - MINUTE }),
            job({ id: "f", name: "fails", state: "FAILED", end: NOW - 2 * MINUTE }),
        ];
        const quarantined = [
            { id: "q".repeat(32), reason: "its graph is gone", since: NOW - MINUTE },
        ];
        const needs = needsOf(facts({ jobs, quarantined }));
        expect(needs.map((need) => need.jobId?.[0])).toEqual(["q", "f", "r", "w"]);
        expect(needs[0]?.sentence).toBe("is in quarantine: its graph is gone");
    });
});

/** The sentence on top of the overview, and the list of what needs a person. */

import { duration, exact, plural } from "./format";
import { hasEnded } from "./states";

export interface JobRow {
    id: string;
    name: string;
    state: string;
    type: string;
    start: number;
    /** Absent for a job that has not ended. */
    end?: number;
    lastChange: number;
    /** What a live job without a running task waits for. */
    waitsFor?: string;
    owner?: string;
    /** How often its tasks were started again. */
    restarts: number;
    /** Tasks that run, or of an ended job those that finished; of all `tasks`. */
    done: number;
    tasks: number;
}

export interface Quarantined {
    id: string;
    reason: string;
    since: number;
}

export interface Cluster {
    running: number;
    waiting: number;
    slotsTotal: number;
    slotsFree: number;
    executors: number;
}

export type Severity = "bad" | "warning";

export interface Need {
    severity: Severity;
    /** What it is about: a job, or a part of the cluster. */
    subject: string;
    jobId?: string;
    sentence: string;
    since?: number;
}

/** How long a job may wait, or restart, before somebody should look. */
const PATIENCE = { restarting: 10_000, waiting: 5 * 60_000 };
/** A job that failed longer ago than this is in the list of jobs, and no news. */
const NEWS = 60 * 60_000;

export interface Facts {
    cluster: Cluster;
    /** Jobs that have not ended, and those that ended last. */
    jobs: readonly JobRow[];
    quarantined: readonly Quarantined[];
    now: number;
}

/** Worst first; among equals the newest first. */
export function needsOf({ cluster, jobs, quarantined, now }: Facts): Need[] {
    const needs: Need[] = quarantined.map(({ id, reason, since }) => ({
        severity: "bad",
        subject: id.slice(0, 12),
        jobId: id,
        sentence: `is in quarantine: ${reason}`,
        since,
    }));
    if (cluster.executors === 0 && (cluster.running > 0 || cluster.waiting > 0)) {
        needs.push({
            severity: "bad",
            subject: "No task executor",
            sentence: "is registered, so no job can run. Start one: stoker taskmanager",
        });
    }
    for (const job of jobs) {
        const need = needOf(job, now);
        if (need !== undefined) needs.push(need);
    }
    return needs.sort(
        (a, b) =>
            Number(b.severity === "bad") - Number(a.severity === "bad") ||
            (b.since ?? now) - (a.since ?? now),
    );
}

function needOf(job: JobRow, now: number): Need | undefined {
    const about = { subject: job.name, jobId: job.id };
    if (job.state === "FAILED" && job.end !== undefined && now - job.end < NEWS) {
        return {
            ...about,
            severity: "bad",
            sentence: "has failed and will not be tried again",
            since: job.end,
        };
    }
    const unchanged = now - job.lastChange;
    if (
        job.state === "FAILING" ||
        (job.state === "RESTARTING" && unchanged > PATIENCE.restarting)
    ) {
        return {
            ...about,
            severity: "warning",
            sentence: "has failed and is tried again",
            since: job.lastChange,
        };
    }
    if (!hasEnded(job.state) && job.waitsFor !== undefined && now - job.start > PATIENCE.waiting) {
        const sentence = `has waited for ${job.waitsFor} for ${duration(now - job.start)}`;
        return { ...about, severity: "warning", sentence, since: job.start };
    }
    return undefined;
}

export interface Verdict {
    tone: "well" | Severity;
    sentence: string;
}

export function verdictOf(facts: Facts, needs: readonly Need[] = needsOf(facts)): Verdict {
    const { cluster } = facts;
    const work = workOf(cluster);
    if (needs.length === 0) return { tone: "well", sentence: `All well. ${work}` };
    const jobs = new Set(needs.map((need) => need.jobId).filter(Boolean)).size;
    const others = needs.filter((need) => need.jobId === undefined);
    const needing =
        jobs === 0 ? "" : `${plural(jobs, "job")} ${jobs === 1 ? "needs" : "need"} you.`;
    const first = others.map((need) => `${need.subject} ${need.sentence}.`).join(" ");
    const tone = needs.some((need) => need.severity === "bad") ? "bad" : "warning";
    return { tone, sentence: [first, needing, work].filter(Boolean).join(" ") };
}

function workOf({ running, waiting, slotsTotal, slotsFree }: Cluster): string {
    const slots =
        slotsTotal === 0
            ? "no slot is there"
            : `${exact(slotsTotal - slotsFree)} of ${plural(slotsTotal, "slot")} in use`;
    if (running === 0 && waiting === 0) return `No job runs, ${slots}.`;
    const runs =
        running === 0
            ? "No job runs"
            : `${plural(running, "job")} ${running === 1 ? "runs" : "run"}`;
    const waits = waiting === 0 ? "" : `, ${exact(waiting)} ${waiting === 1 ? "waits" : "wait"}`;
    return `${runs}${waits}, ${slots}.`;
}

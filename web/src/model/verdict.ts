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

/** A job that was started again so often is in trouble, until it has run undisturbed for a while. */
const OFTEN = 3;
const SETTLED = 5 * 60_000;

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
    const newest = newestOfEachName(jobs);
    for (const job of jobs) {
        const need = needOf(job, now, newest.get(job.name) ?? job);
        if (need !== undefined) needs.push(need);
    }
    return needs.sort(
        (a, b) =>
            Number(b.severity === "bad") - Number(a.severity === "bad") ||
            (b.since ?? now) - (a.since ?? now),
    );
}

/** A job that was run again under the same name is no longer what somebody has to look at. */
function newestOfEachName(jobs: readonly JobRow[]): Map<string, JobRow> {
    const newest = new Map<string, JobRow>();
    for (const job of jobs) {
        const known = newest.get(job.name);
        if (known === undefined || known.start < job.start) newest.set(job.name, job);
    }
    return newest;
}

function needOf(job: JobRow, now: number, newest: JobRow): Need | undefined {
    const about = { subject: job.name, jobId: job.id };
    const unchanged = now - job.lastChange;
    if (hasEnded(job.state)) {
        const isNews = job.state === "FAILED" && job.end !== undefined && now - job.end < NEWS;
        if (!isNews || newest !== job) return undefined;
        const sentence = "has failed and will not be tried again";
        return {
            ...about,
            severity: "bad",
            sentence,
            ...(job.end !== undefined && { since: job.end }),
        };
    }
    const again = job.state === "FAILING" || job.state === "RESTARTING";
    if (job.restarts >= OFTEN && (again || unchanged < SETTLED)) {
        const sentence = `fails again and again: started again ${exact(job.restarts)} times`;
        return { ...about, severity: "bad", sentence, since: job.lastChange };
    }
    if (job.state === "FAILING" || (again && unchanged > PATIENCE.restarting)) {
        const sentence = "has failed and is tried again";
        return { ...about, severity: "warning", sentence, since: job.lastChange };
    }
    if (job.waitsFor !== undefined && now - job.start > PATIENCE.waiting) {
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

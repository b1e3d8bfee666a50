/** What the states of a job mean for somebody who looks at the page. */

export type JobState =
    | "INITIALIZING"
    | "CREATED"
    | "RUNNING"
    | "FAILING"
    | "FAILED"
    | "CANCELLING"
    | "CANCELED"
    | "FINISHED"
    | "RESTARTING"
    | "SUSPENDED"
    | "RECONCILING";

export type Tone = "running" | "finished" | "failed" | "restarting" | "quarantined" | "idle";
export type Shape =
    | "disc"
    | "tick"
    | "square-cross"
    | "round-arrow"
    | "dashed-ring"
    | "ring-hand"
    | "ring-stroke"
    | "hexagon"
    | "dotted-ring";

export interface Look {
    tone: Tone;
    shape: Shape;
    word: string;
}

const LOOKS: Record<JobState, Look> = {
    INITIALIZING: { tone: "idle", shape: "ring-hand", word: "initializing" },
    CREATED: { tone: "idle", shape: "ring-hand", word: "created" },
    RUNNING: { tone: "running", shape: "disc", word: "running" },
    FAILING: { tone: "failed", shape: "square-cross", word: "failing" },
    FAILED: { tone: "failed", shape: "square-cross", word: "failed" },
    CANCELLING: { tone: "idle", shape: "ring-stroke", word: "cancelling" },
    CANCELED: { tone: "idle", shape: "ring-stroke", word: "cancelled" },
    FINISHED: { tone: "finished", shape: "tick", word: "finished" },
    RESTARTING: { tone: "restarting", shape: "round-arrow", word: "restarting" },
    SUSPENDED: { tone: "idle", shape: "ring-hand", word: "suspended" },
    RECONCILING: { tone: "restarting", shape: "dashed-ring", word: "reconciling" },
};
const QUARANTINED: Look = { tone: "quarantined", shape: "hexagon", word: "in quarantine" };
const WAITING: Look = { tone: "idle", shape: "ring-hand", word: "waiting" };
const UNKNOWN: Look = { tone: "idle", shape: "dotted-ring", word: "unknown" };

export const STATES = Object.keys(LOOKS) as JobState[];

/** `waitsFor` is what a live job without a running task waits for, as the server says it. */
export function lookOf(state: string, waitsFor?: string): Look {
    if (state === "QUARANTINED") return QUARANTINED;
    const look = LOOKS[state as JobState] ?? UNKNOWN;
    return waitsFor && !hasEnded(state) && look.tone !== "restarting" ? WAITING : look;
}

export function hasEnded(state: string): boolean {
    return state === "FINISHED" || state === "FAILED" || state === "CANCELED";
}

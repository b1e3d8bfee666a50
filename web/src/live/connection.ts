/** The one connection on which the masters tell what has changed.
 *
 * A browser allows six connections to a server, for all of its tabs together. So of all tabs only
 * the one that holds a lock reads the stream, and passes the events on to the others. A hidden tab
 * gives the lock up. Where locks are not available, each visible tab has a stream of its own.
 */

import { signal } from "@preact/signals";
import { urlOf } from "../api/client";
import { pauseAfter } from "../model/backoff";
import { EventReader, type ServerEvent } from "../model/sse";
import { serverNow, serverSays } from "./clock";

export type Connection =
    | { state: "connecting" }
    | { state: "live" }
    | { state: "lost"; since: number; nextTry: number; reason: string };

export const connection = signal<Connection>({ state: "connecting" });
/** When something was last heard from a master, by the server's clock. */
export const lastHeard = signal(0);

/** The fields of the first event that the page uses. */
interface Hello {
    "server-time": number;
    epoch: number | null;
    leader: string | null;
}

export interface Leader {
    /** Absent while nobody leads, or while that is not known. */
    url: string | undefined;
    epoch: number | undefined;
    /** When the page learned that another master leads; absent for the leader that it found. */
    changedAt?: number;
}

export const leader = signal<Leader | undefined>(undefined);

type Listener = (event: ServerEvent) => void;
type Shared = { event: ServerEvent } | { connection: Connection };

const listeners = new Set<Listener>();
const LOCK = "stoker-events";
const TOPICS = "jobs,cluster,log";
/** The last event of the durable log that was heard: a new stream continues behind it. */
let lastEvent = "";
const SILENCE = 40_000;

export function onEvent(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

let channel: BroadcastChannel | undefined;
let release: (() => void) | undefined;
let stopped = true;
let wake: (() => void) | undefined;

export function connect(): void {
    if (!stopped) return;
    stopped = false;
    if ("BroadcastChannel" in window && "locks" in navigator) {
        channel = new BroadcastChannel(LOCK);
        channel.onmessage = ({ data }: MessageEvent<Shared>) => {
            if ("event" in data) heard(data.event);
            else connection.value = data.connection;
        };
    }
    document.addEventListener("visibilitychange", visibilityChanged);
    window.addEventListener("online", wakeUp);
    visibilityChanged();
}

export function disconnect(): void {
    stopped = true;
    document.removeEventListener("visibilitychange", visibilityChanged);
    window.removeEventListener("online", wakeUp);
    release?.();
    channel?.close();
    channel = undefined;
    connection.value = { state: "connecting" };
}

function wakeUp(): void {
    wake?.();
}

function visibilityChanged(): void {
    if (document.hidden) {
        release?.();
        return;
    }
    wakeUp();
    if (release !== undefined || stopped) return;
    const ended = new AbortController();
    release = () => {
        release = undefined;
        ended.abort();
    };
    if (channel === undefined) void read(ended.signal);
    else
        navigator.locks
            .request(LOCK, { signal: ended.signal }, () => read(ended.signal))
            .catch(() => undefined);
}

/** Reads streams, one after the other, until the tab is hidden. */
async function read(ended: AbortSignal): Promise<void> {
    let failures = 0;
    while (!ended.aborted) {
        let reason = "the master ended the stream";
        try {
            await readOnce(ended, () => {
                failures = 0;
                report({ state: "live" });
            });
        } catch (error) {
            reason = error instanceof Error ? error.message : String(error);
        }
        if (ended.aborted) return;
        const pause = pauseAfter(failures, Math.random());
        failures += 1;
        const since = connection.value.state === "lost" ? connection.value.since : serverNow();
        // The first break is most often a change of the leader, and over before anybody would read it.
        if (failures > 1) report({ state: "lost", since, nextTry: serverNow() + pause, reason });
        await sleep(pause, ended);
    }
}

async function readOnce(ended: AbortSignal, begun: () => void): Promise<void> {
    const silent = new AbortController();
    const after = lastEvent === "" ? "" : `&after=${encodeURIComponent(lastEvent)}`;
    const answer = await fetch(urlOf(`/events?topics=${TOPICS}${after}`), {
        headers: { Accept: "text/event-stream", "Stoker-Page": "1" },
        credentials: "same-origin",
        signal: AbortSignal.any([ended, silent.signal]),
    });
    if (!answer.ok || answer.body === null)
        throw new Error(`the master answers with ${answer.status}`);
    begun();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    for (;;) {
        // A connection that says nothing, not even that it is alive, is broken.
        const timer = setTimeout(() => silent.abort(new Error("it says nothing")), SILENCE);
        const { value, done } = await reader.read().finally(() => clearTimeout(timer));
        if (done) return;
        lastHeard.value = serverNow();
        for (const event of events.add(value)) {
            heard(event);
            channel?.postMessage({ event } satisfies Shared);
        }
    }
}

function heard(event: ServerEvent): void {
    lastHeard.value = serverNow();
    if (connection.value.state !== "live") connection.value = { state: "live" };
    if (event.id !== "") lastEvent = event.id;
    if (event.kind === "hello") greeted(event.data);
    for (const listener of listeners) listener(event);
}

/** The first event of each stream, and one more when another master leads. */
function greeted(data: string): void {
    const hello = JSON.parse(data) as Hello;
    serverSays(hello["server-time"]);
    const found = { url: hello.leader ?? undefined, epoch: hello.epoch ?? undefined };
    const before = leader.value;
    if (before?.epoch === found.epoch && before?.url === found.url) return;
    const isNew = before?.epoch !== undefined && found.epoch !== undefined;
    leader.value = isNew ? { ...found, changedAt: serverNow() } : found;
}

function report(state: Connection): void {
    connection.value = state;
    channel?.postMessage({ connection: state } satisfies Shared);
}

function sleep(pause: number, ended: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
        const done = () => {
            clearTimeout(timer);
            ended.removeEventListener("abort", done);
            wake = undefined;
            resolve();
        };
        const timer = setTimeout(done, pause);
        ended.addEventListener("abort", done);
        wake = done;
    });
}

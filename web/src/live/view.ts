/** What a view shows: asked again when something has changed, and kept while no answer comes. */

import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError } from "../api/client";
import { serverNow } from "./clock";
import { connection, onEvent } from "./connection";
import { sessionEnded } from "./session";

export interface Shown<T> {
    data?: T;
    /** Why the last question was not answered. The data of an earlier one stays. */
    error?: ApiError;
    /** When the data came, by the server's clock. */
    at?: number;
}

type Ask<T> = (signal: AbortSignal) => Promise<T>;

/** Between two questions of a view, however much changes. */
const LEAST = 1000;
/** Asked without any news: for figures that no event tells. */
const REST = 10_000;

/** Asks at once, after events, and whenever `key` changes. */
export function useView<T>(key: string, ask: Ask<T>): Signal<Shown<T>> {
    const shown = useMemo(() => signal<Shown<T>>({}), [key]);
    useEffect(() => follow(shown, ask), [key]);
    return shown;
}

function follow<T>(shown: Signal<Shown<T>>, ask: Ask<T>): () => void {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking = false;
    let isDirty = false;
    let last = 0;

    async function look(): Promise<void> {
        asking = true;
        isDirty = false;
        last = performance.now();
        try {
            const data = await ask(ended.signal);
            if (!ended.signal.aborted) shown.value = { data, at: serverNow() };
        } catch (error) {
            if (ended.signal.aborted) return;
            const known = error instanceof ApiError ? error : new ApiError(String(error), 0);
            if (known.status === 401) sessionEnded();
            shown.value = { ...shown.value, error: known };
        } finally {
            asking = false;
            plan(isDirty ? LEAST : REST);
        }
    }

    function plan(pause: number): void {
        clearTimeout(timer);
        if (ended.signal.aborted) return;
        timer = setTimeout(() => {
            if (document.hidden) isDirty = true;
            else void look();
        }, pause);
    }

    function changed(): void {
        if (asking || document.hidden) isDirty = true;
        else plan(Math.max(0, LEAST - (performance.now() - last)));
    }

    void look();
    const stop = [
        onEvent(changed),
        connection.subscribe((present) => {
            if (present.state === "live") changed();
        }),
    ];
    document.addEventListener("visibilitychange", changed);
    return () => {
        ended.abort();
        clearTimeout(timer);
        for (const each of stop) each();
        document.removeEventListener("visibilitychange", changed);
    };
}

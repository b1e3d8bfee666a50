/** Calls of the REST API, with the types of its own description. */

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** What a call that was answered, but refused, says; or that nobody answered. */
export class ApiError extends Error {
    constructor(
        message: string,
        /** 0 when no answer came. */
        readonly status: number,
    ) {
        super(message);
    }
}

// Relative: the page works below any path of a proxy. `openapi-fetch` makes addresses of its own.
const base = new URL(".", document.baseURI).href.replace(/\/$/, "");

export const http = createClient<paths>({
    baseUrl: base,
    credentials: "same-origin",
    headers: { "Stoker-Page": "1" },
});

export function urlOf(path: string): string {
    return `${base}${path}`;
}

interface Answer<T> {
    data?: T;
    error?: unknown;
    response: Response;
}

/** The body of the answer. Throws ApiError with the server's own words. */
export async function call<T>(answer: Promise<Answer<T>>): Promise<T> {
    let found: Answer<T>;
    try {
        found = await answer;
    } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") throw error;
        throw new ApiError("The master does not answer.", 0);
    }
    const { data, error, response } = found;
    if (response.ok) return data as T;
    throw new ApiError(
        wordsOf(error) ?? `The master answers with ${response.status}.`,
        response.status,
    );
}

function wordsOf(error: unknown): string | undefined {
    if (typeof error !== "object" || error === null || !("errors" in error)) return undefined;
    const { errors } = error;
    if (!Array.isArray(errors)) return undefined;
    return errors.filter((each) => typeof each === "string").join(" ") || undefined;
}

/** Rows of the job list as the page uses them. */

import type { Schemas } from "../../api/client";
import { hasEnded } from "../../model/states";
import type { JobRow } from "../../model/verdict";

export function rowOf(job: Schemas["JobOverview"]): JobRow {
    return {
        id: job.jid,
        name: job.name,
        state: job.state,
        type: job.jobType,
        start: job["start-time"],
        lastChange: job["last-modification"],
        restarts: job.restarts ?? 0,
        done: hasEnded(job.state) ? job.tasks.finished : job.tasks.running,
        tasks: job.tasks.total,
        ...(job["end-time"] >= 0 && { end: job["end-time"] }),
        ...(job["waits-for"] !== undefined && { waitsFor: job["waits-for"] }),
        ...(job.owner !== undefined && { owner: job.owner }),
    };
}

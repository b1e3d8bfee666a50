import { useState } from "preact/hooks";
import { ApiError, call, http } from "../../api/client";
import { plural } from "../../model/format";
import type { JobRow } from "../../model/verdict";
import { Dialog } from "../../parts/dialog";
import { Id, Name } from "../../parts/texts";

type Outcome = "asked" | "done" | { fault: string };

/** Names every job that would be cancelled, and then what became of each. */
export function EndJobs({ jobs, close }: { jobs: readonly JobRow[]; close: () => void }) {
    const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
    const begun = outcomes.size > 0;
    const busy = [...outcomes.values()].includes("asked");

    async function cancelAll() {
        setOutcomes(new Map(jobs.map((job) => [job.id, "asked"])));
        for (const job of jobs) {
            const outcome = await cancel(job.id);
            setOutcomes((known) => new Map(known).set(job.id, outcome));
        }
    }

    return (
        <Dialog title={`Cancel ${plural(jobs.length, "job")}`} {...(!busy && { close })}>
            <p>
                Their tasks are ended. What a batch job has not written completely is discarded; a
                stream keeps its last checkpoint, from which a job with the same output goes on.
            </p>
            <ul class="outcomes">
                {jobs.map((job) => (
                    <li key={job.id}>
                        <Name text={job.name} /> <Id id={job.id} />
                        <OutcomeText outcome={outcomes.get(job.id)} />
                    </li>
                ))}
            </ul>
            <div class="buttons">
                <button type="button" autofocus disabled={busy} onClick={close}>
                    {begun ? "Close" : "Keep"}
                </button>
                {!begun && (
                    <button type="button" class="danger" onClick={() => void cancelAll()}>
                        Cancel {plural(jobs.length, "job")}
                    </button>
                )}
            </div>
        </Dialog>
    );
}

async function cancel(id: string): Promise<Outcome> {
    try {
        await call(
            http.PATCH("/jobs/{jobid}", {
                params: { path: { jobid: id }, query: { mode: "cancel" } },
            }),
        );
        return "done";
    } catch (error) {
        return { fault: error instanceof ApiError ? error.message : String(error) };
    }
}

function OutcomeText({ outcome }: { outcome: Outcome | undefined }) {
    if (outcome === undefined) return null;
    if (outcome === "asked") return <span class="muted"> · asked</span>;
    if (outcome === "done") return <span> · is being cancelled</span>;
    return <span class="fault"> · {outcome.fault}</span>;
}

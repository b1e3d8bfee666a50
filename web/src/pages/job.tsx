import { useState } from "preact/hooks";
import { type ApiError, call, http, type Schemas } from "../api/client";
import { may } from "../live/session";
import { useView } from "../live/view";
import { exact } from "../model/format";
import { hasEnded } from "../model/states";
import { Badge } from "../parts/badge";
import { Empty, Panel } from "../parts/panel";
import { Age, Duration, Id, Name } from "../parts/texts";
import { EventList } from "./events/list";
import { EndJobs } from "./jobs/end_jobs";

type Job = Schemas["JobAnswer"];

const MOST_EVENTS = 50;

export function JobPage({ id }: { id: string }) {
    const path = { path: { jobid: id } };
    const job = useView(`job ${id}`, (signal) =>
        call(http.GET("/jobs/{jobid}", { params: path, signal })),
    );
    const failures = useView(`failures ${id}`, (signal) =>
        call(http.GET("/jobs/{jobid}/exceptions", { params: path, signal })),
    );
    const events = useView(`events ${id}`, (signal) =>
        call(
            http.GET("/events/log", { params: { query: { job: id, limit: MOST_EVENTS } }, signal }),
        ),
    );
    const { data, error } = job.value;
    if (data === undefined && error !== undefined) return <NoJob id={id} error={error} />;
    return (
        <>
            {data === undefined ? <h1>Job</h1> : <Head job={data} />}
            <div class="columns">
                <Panel title="Parts" view={job}>
                    {(shown) => <Parts job={shown} />}
                </Panel>
                <Panel title="Failures" view={failures}>
                    {(shown) => <Failures entries={shown.exceptionHistory.entries} />}
                </Panel>
                <Panel title="What happened" view={events}>
                    {(shown) => <EventList answer={shown} isOfOneJob />}
                </Panel>
            </div>
        </>
    );
}

function NoJob({ id, error }: { id: string; error: ApiError }) {
    return (
        <>
            <h1>Job</h1>
            <p class="fault" role="status">
                <Name text={id} length={40} />: {error.message}
            </p>
            <a href="#/jobs">All jobs</a>
        </>
    );
}

function Head({ job }: { job: Job }) {
    const [ending, setEnding] = useState(false);
    const end = job["end-time"] >= 0 ? job["end-time"] : undefined;
    return (
        <>
            <h1>
                <Name text={job.name} length={120} />
            </h1>
            <p class="facts">
                <Badge state={job.state} />
                <span>{job["job-type"].toLowerCase()}</span>
                <Id id={job.jid} />
                <span>
                    started <Age at={job["start-time"]} />
                </span>
                <span>
                    {end === undefined ? "for" : "took"}{" "}
                    <Duration start={job["start-time"]} end={end} />
                </span>
                {!hasEnded(job.state) && (
                    <button
                        type="button"
                        disabled={!may("control")}
                        title={
                            may("control")
                                ? undefined
                                : "needs a token with the role operate or submit"
                        }
                        onClick={() => setEnding(true)}
                    >
                        Cancel …
                    </button>
                )}
            </p>
            {ending && (
                <EndJobs
                    jobs={[{ ...NOTHING, id: job.jid, name: job.name }]}
                    close={() => setEnding(false)}
                />
            )}
        </>
    );
}

const NOTHING = {
    state: "RUNNING",
    type: "",
    start: 0,
    lastChange: 0,
    restarts: 0,
    done: 0,
    tasks: 0,
};

function Parts({ job }: { job: Job }) {
    if (job.vertices.length === 0) return <Empty>This job has no parts that are known.</Empty>;
    return (
        <div class="scrolls">
            <table>
                <thead>
                    <tr>
                        <th>Part</th>
                        <th>State</th>
                        <th class="number">Rows read</th>
                        <th class="number">Rows written</th>
                        <th class="number">Duration</th>
                    </tr>
                </thead>
                <tbody>
                    {job.vertices.map((vertex) => (
                        <tr key={vertex.id}>
                            <td>
                                <Name text={vertex.name} />
                            </td>
                            <td>{vertex.status.toLowerCase()}</td>
                            <td class="number">{exact(vertex.metrics["read-records"])}</td>
                            <td class="number">{exact(vertex.metrics["write-records"])}</td>
                            <td class="number">
                                {vertex["start-time"] < 0 ? (
                                    "–"
                                ) : (
                                    <Duration
                                        start={vertex["start-time"]}
                                        {...(vertex["end-time"] >= 0 && {
                                            end: vertex["end-time"],
                                        })}
                                    />
                                )}
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

/** The error with its message: the first line that names it. */
function sentenceOf({ exceptionName, stacktrace }: { exceptionName: string; stacktrace: string }) {
    const start = `${exceptionName}: `;
    return stacktrace.split("\n").find((line) => line.startsWith(start)) ?? exceptionName;
}

function Failures({
    entries,
}: {
    entries: Schemas["JobExceptions"]["exceptionHistory"]["entries"];
}) {
    if (entries.length === 0) return <Empty>It has not failed.</Empty>;
    return (
        <ol class="failures">
            {entries.map((entry) => (
                <li key={`${entry.timestamp} ${entry.exceptionName}`}>
                    <details>
                        <summary>
                            <Name text={sentenceOf(entry)} length={200} />{" "}
                            <span class="muted">
                                <Age at={entry.timestamp} />
                            </span>
                        </summary>
                        <pre>{entry.stacktrace}</pre>
                    </details>
                </li>
            ))}
        </ol>
    );
}

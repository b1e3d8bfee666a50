import { call, http } from "../../api/client";
import { now } from "../../live/clock";
import { may } from "../../live/session";
import { useView } from "../../live/view";
import { exact, plural } from "../../model/format";
import { hashOf } from "../../model/route";
import { type Facts, type Need, needsOf, verdictOf } from "../../model/verdict";
import { Badge } from "../../parts/badge";
import { Empty, Panel } from "../../parts/panel";
import { Age, Name } from "../../parts/texts";
import { EventList } from "../events/list";
import { rowOf } from "../jobs/rows";

/** More live jobs than these are counted, and not looked at one by one. */
const MOST_LIVE = 500;
const MOST_NEEDS = 8;
const MOST_RECENT = 10;
const LIVE = "INITIALIZING,CREATED,RUNNING,FAILING,CANCELLING,RESTARTING,SUSPENDED,RECONCILING";
const ENDED = "FINISHED,FAILED,CANCELED";

type Overview = Awaited<ReturnType<typeof loadOverview>>;

async function loadOverview(signal: AbortSignal) {
    const jobs = (state: string, sort: string, limit: number) =>
        call(
            http.GET("/jobs/overview", {
                params: { query: { state, sort, limit, show: "owner" } },
                signal,
            }),
        );
    const mayRead = may("read");
    const [cluster, live, ended, events, quarantine, executors] = await Promise.all([
        call(http.GET("/overview", { signal })),
        jobs(LIVE, "-last-modification", MOST_LIVE),
        jobs(ENDED, "-end-time", MOST_RECENT),
        call(http.GET("/events/log", { params: { query: { limit: MOST_RECENT } }, signal })),
        mayRead ? call(http.GET("/quarantine", { signal })) : { jobs: [] },
        mayRead ? call(http.GET("/taskmanagers", { signal })) : { taskmanagers: [] },
    ]);
    const rows = live.jobs.map(rowOf);
    const waiting = rows.filter((job) => job.waitsFor !== undefined).length;
    return {
        cluster: {
            running: Math.max(0, (live.total ?? rows.length) - waiting),
            waiting,
            slotsTotal: cluster["slots-total"],
            slotsFree: cluster["slots-available"],
            executors: cluster.taskmanagers,
        },
        counts: {
            finished: cluster["jobs-finished"],
            failed: cluster["jobs-failed"],
            cancelled: cluster["jobs-cancelled"],
        },
        live: rows,
        liveTotal: live.total ?? rows.length,
        ended: ended.jobs.map(rowOf),
        events,
        quarantined: quarantine.jobs.map(({ job_id, reason, since }) => ({
            id: job_id,
            reason,
            since,
        })),
        executors: executors.taskmanagers,
    };
}

export function OverviewPage() {
    const view = useView("overview", loadOverview);
    const { data } = view.value;
    const facts: Facts | undefined = data && {
        cluster: data.cluster,
        jobs: [...data.live, ...data.ended],
        quarantined: data.quarantined,
        now: now.value,
    };
    const needs = facts === undefined ? [] : needsOf(facts);
    return (
        <>
            <h1 class="hidden">Overview</h1>
            {facts !== undefined && <VerdictLine facts={facts} needs={needs} />}
            <div class="columns">
                {needs.length > 0 && (
                    <Panel title="Needs attention" view={view}>
                        {() => <Needs needs={needs} />}
                    </Panel>
                )}
                <Panel title="Jobs" view={view}>
                    {(shown) => <Counts shown={shown} />}
                </Panel>
                <Panel title="Slots" view={view}>
                    {(shown) => <Slots shown={shown} />}
                </Panel>
                <Panel title="Ended last" view={view}>
                    {(shown) => <Recent shown={shown} />}
                </Panel>
                <Panel title="Happened last" view={view}>
                    {(shown) => <EventList answer={shown.events} />}
                </Panel>
            </div>
        </>
    );
}

function VerdictLine({ facts, needs }: { facts: Facts; needs: Need[] }) {
    const { tone, sentence } = verdictOf(facts, needs);
    return (
        <p class={`verdict verdict-${tone}`} role="status">
            {sentence}
        </p>
    );
}

function Needs({ needs }: { needs: Need[] }) {
    const more = needs.length - MOST_NEEDS;
    return (
        <>
            <ul class="needs">
                {needs.slice(0, MOST_NEEDS).map((need) => (
                    <li key={`${need.jobId} ${need.sentence}`} class={`need-${need.severity}`}>
                        {need.jobId === undefined ? (
                            <strong>{need.subject}</strong>
                        ) : (
                            <a href={hashOf({ path: ["jobs", need.jobId] })}>
                                <Name text={need.subject} />
                            </a>
                        )}{" "}
                        <Name text={need.sentence} length={200} />
                        {need.since !== undefined && (
                            <span class="muted">
                                {" "}
                                · <Age at={need.since} />
                            </span>
                        )}
                    </li>
                ))}
            </ul>
            {more > 0 && (
                <p class="muted">
                    The worst {MOST_NEEDS} of {exact(needs.length)}.
                </p>
            )}
        </>
    );
}

function Counts({ shown }: { shown: Overview }) {
    const { cluster, counts } = shown;
    const figures = [
        ["running", cluster.running, "running,restarting,failing,cancelling"],
        ["waiting", cluster.waiting, "created"],
        ["finished", counts.finished, "finished"],
        ["failed", counts.failed, "failed"],
        ["cancelled", counts.cancelled, "canceled"],
    ] as const;
    return (
        <dl class="figures">
            {figures.map(([word, count, states]) => (
                <div key={word}>
                    <dt>{word}</dt>
                    <dd>
                        <a href={hashOf({ path: ["jobs"], query: { filter: `state:${states}` } })}>
                            {exact(count)}
                        </a>
                    </dd>
                </div>
            ))}
        </dl>
    );
}

function Slots({ shown }: { shown: Overview }) {
    if (!may("read")) {
        const { slotsTotal, slotsFree } = shown.cluster;
        return (
            <p>
                {exact(slotsTotal - slotsFree)} of {plural(slotsTotal, "slot")} in use.
            </p>
        );
    }
    if (shown.executors.length === 0) {
        return (
            <Empty>
                No task executor is registered. Start one: <code>stoker taskmanager</code>
            </Empty>
        );
    }
    return (
        <ul class="executors">
            {shown.executors.map((executor) => {
                const used = executor.slotsNumber - executor.freeSlots;
                return (
                    <li key={executor.id}>
                        <Name text={executor.id} length={24} />
                        <span
                            class="cells"
                            role="img"
                            aria-label={`${used} of ${plural(executor.slotsNumber, "slot")} in use`}
                        >
                            {Array.from(
                                { length: Math.min(executor.slotsNumber, 128) },
                                (_, cell) => (
                                    <i key={cell} class={cell < used ? "cell used" : "cell"} />
                                ),
                            )}
                        </span>
                        <span class="muted">
                            {used}/{executor.slotsNumber}
                        </span>
                    </li>
                );
            })}
        </ul>
    );
}

function Recent({ shown }: { shown: Overview }) {
    if (shown.ended.length === 0) {
        return (
            <Empty>
                No job has ended yet. Submit one: <code>stoker run job.py</code>
            </Empty>
        );
    }
    return (
        <ul class="recent">
            {shown.ended.map((job) => (
                <li key={job.id}>
                    <Badge state={job.state} />
                    <a href={hashOf({ path: ["jobs", job.id] })}>
                        <Name text={job.name} length={40} />
                    </a>
                    <span class="muted">
                        <Age at={job.end} />
                    </span>
                </li>
            ))}
        </ul>
    );
}

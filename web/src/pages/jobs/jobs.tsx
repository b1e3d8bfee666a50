import { useEffect, useMemo, useState } from "preact/hooks";
import { call, http } from "../../api/client";
import { may } from "../../live/session";
import { useView } from "../../live/view";
import { filterText, isEmpty, type JobFilter, parseFilter, without } from "../../model/filters";
import { exact, plural } from "../../model/format";
import { hashOf } from "../../model/route";
import { hasEnded, STATES } from "../../model/states";
import type { JobRow } from "../../model/verdict";
import { Badge } from "../../parts/badge";
import { Empty, Panel } from "../../parts/panel";
import { Age, Duration, Id, Name } from "../../parts/texts";
import { choose, route } from "../../router";
import { EndJobs } from "./end_jobs";
import { rowOf } from "./rows";

const PAGE = 100;
const TYPES = ["BATCH", "STREAMING"];
const PAUSE_IN_TYPING = 250;

const COLUMNS = [
    { title: "State", sort: "state" },
    { title: "Name", sort: "name" },
    { title: "Type" },
    { title: "Owner" },
    { title: "Tasks", isNumber: true },
    { title: "Restarts", isNumber: true },
    { title: "Started", sort: "start-time" },
    { title: "Duration", sort: "duration", isNumber: true },
] as const;

export function JobsPage() {
    const { filter: text = "", sort = "-start-time", page = "1" } = route.value.query;
    const { filter, faults } = useMemo(
        () => parseFilter(text, { states: STATES, types: TYPES }),
        [text],
    );
    const number = Math.max(1, Number.parseInt(page, 10) || 1);
    const view = useView(`jobs ${text} ${sort} ${number}`, async (signal) => {
        const { jobs, total } = await call(
            http.GET("/jobs/overview", {
                params: { query: queryOf(filter, sort, number) },
                signal,
            }),
        );
        return { jobs: jobs.map(rowOf), total: total ?? jobs.length };
    });
    const [selected, setSelected] = useState<ReadonlyMap<string, JobRow>>(new Map());
    const [ending, setEnding] = useState(false);
    const select = (job: JobRow, on: boolean) => {
        const changed = new Map(selected);
        if (on) changed.set(job.id, job);
        else changed.delete(job.id);
        setSelected(changed);
    };
    return (
        <>
            <h1>Jobs</h1>
            <FilterField text={text} />
            <Chips filter={filter} />
            {faults.map((fault) => (
                <p key={fault} class="fault" role="status">
                    {fault}
                </p>
            ))}
            <Panel title={isEmpty(filter) ? "All jobs" : "Jobs that match"} view={view}>
                {({ jobs, total }) =>
                    jobs.length === 0 ? (
                        <NoJobs filter={filter} />
                    ) : (
                        <>
                            <div class="above-table">
                                <span>
                                    {total > jobs.length
                                        ? `${exact((number - 1) * PAGE + 1)} to ${exact((number - 1) * PAGE + jobs.length)} of ${plural(total, "job")}`
                                        : plural(total, "job")}
                                </span>
                                <button
                                    type="button"
                                    disabled={selected.size === 0 || !may("control")}
                                    title={
                                        may("control")
                                            ? undefined
                                            : "needs a token with the role operate or submit"
                                    }
                                    onClick={() => setEnding(true)}
                                >
                                    Cancel {selected.size > 0 ? plural(selected.size, "job") : "…"}
                                </button>
                            </div>
                            <Table jobs={jobs} sort={sort} selected={selected} select={select} />
                            <Pages number={number} total={total} />
                        </>
                    )
                }
            </Panel>
            {ending && (
                <EndJobs
                    jobs={[...selected.values()]}
                    close={() => {
                        setEnding(false);
                        setSelected(new Map());
                    }}
                />
            )}
        </>
    );
}

function queryOf(filter: JobFilter, sort: string, number: number) {
    return {
        show: "owner",
        sort,
        limit: PAGE,
        offset: (number - 1) * PAGE,
        ...(filter.states.length > 0 && { state: filter.states.join(",") }),
        ...(filter.types.length > 0 && { type: filter.types.join(",") }),
        ...(filter.owners.length > 0 && { owner: filter.owners.join(",") }),
        ...(filter.text !== "" && { name: filter.text }),
    };
}

function FilterField({ text }: { text: string }) {
    const [typed, setTyped] = useState(text);
    // The address may change by other means than this field: a chip, a link, going back.
    useEffect(() => setTyped(text), [text]);
    useEffect(() => {
        if (typed === text) return;
        const timer = setTimeout(
            () => choose({ filter: typed.trim(), page: "" }, { replace: true }),
            PAUSE_IN_TYPING,
        );
        return () => clearTimeout(timer);
    }, [typed, text]);
    return (
        <label class="filter">
            <span class="hidden">Filter</span>
            <input
                type="search"
                value={typed}
                placeholder="state:failed type:streaming owner:ana part of the name"
                spellcheck={false}
                onInput={(event) => setTyped(event.currentTarget.value)}
            />
        </label>
    );
}

function Chips({ filter }: { filter: JobFilter }) {
    if (isEmpty(filter)) return null;
    const chips = [
        ...(["states", "types", "owners"] as const).flatMap((list) =>
            filter[list].map((value) => ({ value, rest: without(filter, list, value) })),
        ),
        ...(filter.text === ""
            ? []
            : [{ value: `“${filter.text}”`, rest: without(filter, "text") }]),
    ];
    return (
        <ul class="chips" aria-label="Filters">
            {chips.map(({ value, rest }) => (
                <li key={value}>
                    <button
                        type="button"
                        aria-label={`Remove ${value}`}
                        onClick={() => choose({ filter: filterText(rest), page: "" })}
                    >
                        <Name
                            text={value.startsWith("“") ? value : value.toLowerCase()}
                            length={40}
                        />{" "}
                        ×
                    </button>
                </li>
            ))}
        </ul>
    );
}

function NoJobs({ filter }: { filter: JobFilter }) {
    if (isEmpty(filter)) {
        return (
            <Empty>
                No jobs yet. Submit one: <code>stoker run job.py</code>
            </Empty>
        );
    }
    return (
        <Empty>
            No job matches <code>{filterText(filter)}</code>.{" "}
            <button type="button" class="plain" onClick={() => choose({ filter: "", page: "" })}>
                Show all jobs
            </button>
        </Empty>
    );
}

interface TableProps {
    jobs: JobRow[];
    sort: string;
    selected: ReadonlyMap<string, JobRow>;
    select: (job: JobRow, on: boolean) => void;
}

function Table({ jobs, sort, selected, select }: TableProps) {
    return (
        <div class="scrolls">
            <table class="jobs">
                <thead>
                    <tr>
                        <th>
                            <span class="hidden">Selected</span>
                        </th>
                        {COLUMNS.map((column) => (
                            <th
                                key={column.title}
                                class={"isNumber" in column ? "number" : undefined}
                                aria-sort={
                                    "sort" in column ? orderOf(column.sort, sort) : undefined
                                }
                            >
                                {"sort" in column ? (
                                    <button
                                        type="button"
                                        class="plain"
                                        onClick={() =>
                                            choose({ sort: nextSort(column.sort, sort), page: "" })
                                        }
                                    >
                                        {column.title}
                                        {arrowOf(column.sort, sort)}
                                    </button>
                                ) : (
                                    column.title
                                )}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {jobs.map((job) => (
                        <tr key={job.id} aria-selected={selected.has(job.id)}>
                            <td>
                                <input
                                    type="checkbox"
                                    aria-label={`Select ${job.name}`}
                                    disabled={hasEnded(job.state)}
                                    checked={selected.has(job.id)}
                                    onChange={(event) => select(job, event.currentTarget.checked)}
                                />
                            </td>
                            <td>
                                <Badge state={job.state} waitsFor={job.waitsFor} />
                            </td>
                            <td>
                                <a href={hashOf({ path: ["jobs", job.id] })}>
                                    <Name text={job.name} />
                                </a>{" "}
                                <Id id={job.id} />
                            </td>
                            <td>{job.type.toLowerCase()}</td>
                            <td>
                                {job.owner === undefined ? (
                                    "–"
                                ) : (
                                    <Name text={job.owner} length={24} />
                                )}
                            </td>
                            <td class="number">
                                {job.done}/{job.tasks}
                            </td>
                            <td class="number">{exact(job.restarts)}</td>
                            <td>
                                <Age at={job.start} />
                            </td>
                            <td class="number">
                                <Duration start={job.start} end={job.end} />
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

function orderOf(column: string, sort: string) {
    if (sort === column) return "ascending";
    return sort === `-${column}` ? "descending" : "none";
}

function arrowOf(column: string, sort: string): string {
    if (sort === column) return " ↑";
    return sort === `-${column}` ? " ↓" : "";
}

function nextSort(column: string, sort: string): string {
    return sort === `-${column}` ? column : `-${column}`;
}

function Pages({ number, total }: { number: number; total: number }) {
    const last = Math.max(1, Math.ceil(total / PAGE));
    if (last === 1) return null;
    return (
        <nav class="buttons" aria-label="Pages of the list">
            <button
                type="button"
                disabled={number <= 1}
                onClick={() => choose({ page: String(number - 1) })}
            >
                Newer
            </button>
            <span>
                Page {exact(number)} of {exact(last)}
            </span>
            <button
                type="button"
                disabled={number >= last}
                onClick={() => choose({ page: String(number + 1) })}
            >
                Older
            </button>
        </nav>
    );
}

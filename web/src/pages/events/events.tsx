import { call, http } from "../../api/client";
import { useView } from "../../live/view";
import { Panel } from "../../parts/panel";
import { choose, route } from "../../router";
import { EventList } from "./list";

const PAGE = 100;
/** What one looks for, and the kinds of events that tell it. */
const GROUPS: Record<string, string> = {
    all: "",
    failures: "job-failed,job-restarting,job-quarantined,savepoint-failed,executor-lost",
    jobs: "job-submitted,job-queued,job-started,job-taken-over,job-restarting,job-finished,job-failed,job-cancelled",
    savepoints:
        "savepoint-begun,savepoint-completed,savepoint-failed,savepoint-disposed,upgrade,rescale",
    cluster:
        "leader-changed,leader-recovered,executor-registered,executor-draining,executor-lost,tokens-changed,configuration-changed,events-dropped",
};

export function EventsPage() {
    const { about = "all", page = "" } = route.value.query;
    const kind = GROUPS[about] ?? "";
    const view = useView(`events ${about} ${page}`, (signal) =>
        call(
            http.GET("/events/log", {
                params: {
                    query: {
                        limit: PAGE,
                        ...(kind !== "" && { kind }),
                        ...(page !== "" && { page }),
                    },
                },
                signal,
            }),
        ),
    );
    return (
        <>
            <h1>Events</h1>
            <label class="filter">
                About{" "}
                <select
                    value={about in GROUPS ? about : "all"}
                    onChange={(event) => choose({ about: event.currentTarget.value, page: "" })}
                >
                    {Object.keys(GROUPS).map((each) => (
                        <option key={each}>{each}</option>
                    ))}
                </select>
            </label>
            <Panel title={page === "" ? "Newest first" : "Older events"} view={view}>
                {(answer) => (
                    <>
                        <EventList answer={answer} />
                        <div class="buttons">
                            {page !== "" && (
                                <button type="button" onClick={() => choose({ page: "" })}>
                                    Newest
                                </button>
                            )}
                            {answer.next !== null && (
                                <button
                                    type="button"
                                    onClick={() => choose({ page: answer.next ?? "" })}
                                >
                                    Older
                                </button>
                            )}
                        </div>
                    </>
                )}
            </Panel>
        </>
    );
}

import type { Schemas } from "../../api/client";
import { hashOf } from "../../model/route";
import { Empty } from "../../parts/panel";
import { Age, Name } from "../../parts/texts";

type EventsAnswer = Schemas["EventsAnswer"];

/** Events as sentences, newest first; what is missing among them is said. */
export function EventList({ answer, isOfOneJob }: { answer: EventsAnswer; isOfOneJob?: boolean }) {
    if (answer.events.length === 0 && answer.gaps.length === 0) {
        return <Empty>Nothing that matches has happened, as far as the log goes back.</Empty>;
    }
    return (
        <>
            <ul class="events">
                {answer.events.map((event) => (
                    <li key={event.id}>
                        <span class="muted">
                            <Age at={event.time} />
                        </span>
                        <span>
                            {event.job !== null && !isOfOneJob && (
                                <>
                                    <a href={hashOf({ path: ["jobs", event.job] })}>
                                        <Name
                                            text={event["job-name"] || event.job.slice(0, 12)}
                                            length={40}
                                        />
                                    </a>{" "}
                                </>
                            )}
                            <Name text={event.text} length={300} />
                        </span>
                    </li>
                ))}
            </ul>
            {answer.gaps.map((gap) => (
                <p key={`${gap.after} ${gap.before}`} class="muted">
                    {gap.missing ?? "Some"} events are missing here: {gap.reason}.
                </p>
            ))}
        </>
    );
}

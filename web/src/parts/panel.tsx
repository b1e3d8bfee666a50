import type { Signal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { now } from "../live/clock";
import type { Shown } from "../live/view";
import { duration } from "../model/format";

interface Props<T> {
    title: string;
    view: Signal<Shown<T>>;
    children: (data: T) => ComponentChildren;
}

const OLD = 30_000;

/** A part of a page with every state that it can have: loading, shown, old, or without an answer. */
export function Panel<T>({ title, view, children }: Props<T>) {
    const { data, error, at } = view.value;
    const isOld = error !== undefined && at !== undefined && now.value - at > OLD;
    return (
        <section class="panel" data-old={isOld || undefined}>
            <h2>{title}</h2>
            {error !== undefined && (
                <p class="fault" role="status">
                    {error.message}
                    {at !== undefined && ` What you see is ${duration(now.value - at)} old.`}
                </p>
            )}
            {data === undefined ? (
                error === undefined && <Loading />
            ) : (
                <Fenced at={at}>{() => children(data)}</Fenced>
            )}
        </section>
    );
}

interface FencedProps {
    children: () => ComponentChildren;
    /** When the data came: with other data the part is tried again. */
    at: number | undefined;
}

/** A part that cannot be drawn says so, and the others live on. */
class Fenced extends Component<FencedProps, { fault: string | undefined }> {
    override state = { fault: undefined };

    override componentDidCatch(error: unknown) {
        this.setState({ fault: error instanceof Error ? error.message : String(error) });
    }

    override componentDidUpdate(before: FencedProps) {
        if (before.at !== this.props.at && this.state.fault !== undefined) {
            this.setState({ fault: undefined });
        }
    }

    override render() {
        const { fault } = this.state;
        if (fault === undefined) return <Drawn draw={this.props.children} />;
        return <p class="fault">This part cannot be shown: {fault}</p>;
    }
}

function Drawn({ draw }: { draw: () => ComponentChildren }) {
    return <>{draw()}</>;
}

function Loading() {
    return (
        <div class="loading" aria-busy="true">
            <span class="hidden">Loading</span>
        </div>
    );
}

export function Empty({ children }: { children: ComponentChildren }) {
    return <p class="empty">{children}</p>;
}

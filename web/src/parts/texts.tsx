import { now } from "../live/clock";
import { ago, duration, moment, shortened, visible } from "../model/format";
import { zone } from "./settings";

/** How long ago; the exact time is in the tooltip. */
export function Age({ at }: { at: number | undefined }) {
    if (at === undefined) return <span class="muted">–</span>;
    return (
        <time dateTime={new Date(at).toISOString()} title={moment(at, zone.value, true)}>
            {ago(at, now.value, zone.value)}
        </time>
    );
}

/** From `start` to `end`, or to the present moment. */
export function Duration({ start, end }: { start: number; end?: number | undefined }) {
    return (
        <span title={moment(start, zone.value, true)}>{duration((end ?? now.value) - start)}</span>
    );
}

/** A name that somebody gave: in any script, of any length, with nothing hidden in it. */
export function Name({ text, length = 60 }: { text: string; length?: number }) {
    const shown = visible(text);
    return (
        <bdi title={shown.length > length ? shortened(shown, 1000) : undefined}>
            {shortened(shown, length)}
        </bdi>
    );
}

export function Id({ id }: { id: string }) {
    return (
        <code class="id" title={id}>
            {id.slice(0, 12)}
        </code>
    );
}

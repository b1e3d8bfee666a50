/** Numbers and times as text. Nothing here reads a clock: the present time is an argument. */

/** Between the groups of three digits, and between a number and its unit. */
export const THIN = "\u2009";
export const ABSENT = "–";

const FACTORS = [
    { at: 1e12, sign: "T" },
    { at: 1e9, sign: "G" },
    { at: 1e6, sign: "M" },
    { at: 1e3, sign: "k" },
] as const;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Three significant digits, with a factor from a thousand on: `12.4 k`. */
export function short(value: number | null | undefined): string {
    if (value === null || value === undefined || !Number.isFinite(value)) return ABSENT;
    const size = Math.abs(value);
    // 999.6 k has to become 1 M, not 1000 k.
    const factor = FACTORS.find(({ at }) => size >= at * 0.9995);
    if (factor === undefined) return trimmed(value);
    return `${trimmed(value / factor.at)}${THIN}${factor.sign}`;
}

/** All digits, in groups of three: for tooltips and counts. */
export function exact(value: number): string {
    const [whole = "", fraction] = String(Math.abs(value)).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
    return `${value < 0 ? "−" : ""}${grouped}${fraction === undefined ? "" : `.${fraction}`}`;
}

export function bytes(value: number | null | undefined): string {
    if (value === null || value === undefined || !Number.isFinite(value)) return ABSENT;
    let size = Math.abs(value);
    let unit = 0;
    while (size >= 999.5 && unit < BYTE_UNITS.length - 1) {
        size /= 1024;
        unit += 1;
    }
    return `${value < 0 ? "−" : ""}${trimmed(size)}${THIN}${BYTE_UNITS[unit]}`;
}

function trimmed(value: number): string {
    const size = Math.abs(value);
    const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    const text = size.toFixed(digits);
    const plain = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
    return `${value < 0 && plain !== "0" ? "−" : ""}${plain}`;
}

/** `812 ms`, `4.2 s`, `1 h 04 min`, `2 d 3 h`. */
export function duration(ms: number | null | undefined): string {
    if (ms === null || ms === undefined || !Number.isFinite(ms) || ms < 0) return ABSENT;
    if (ms < SECOND) return `${Math.round(ms)}${THIN}ms`;
    if (ms < MINUTE) return `${trimmed(Math.floor(ms / 100) / 10)}${THIN}s`;
    if (ms < HOUR) {
        const seconds = Math.floor((ms % MINUTE) / SECOND);
        return `${Math.floor(ms / MINUTE)}${THIN}min ${two(seconds)}${THIN}s`;
    }
    if (ms < DAY) {
        const minutes = Math.floor((ms % HOUR) / MINUTE);
        return `${Math.floor(ms / HOUR)}${THIN}h ${two(minutes)}${THIN}min`;
    }
    return `${exact(Math.floor(ms / DAY))}${THIN}d ${Math.floor((ms % DAY) / HOUR)}${THIN}h`;
}

/** `just now`, `3 min ago`; a date from a day on. */
export function ago(at: number, now: number, zone: Zone = "local"): string {
    const passed = now - at;
    // Clocks of two machines differ a little; what lies ahead is not called past.
    if (passed < -5 * SECOND) return moment(at, zone);
    if (passed < 5 * SECOND) return "just now";
    if (passed < MINUTE) return `${Math.floor(passed / SECOND)}${THIN}s ago`;
    if (passed < HOUR) return `${Math.floor(passed / MINUTE)}${THIN}min ago`;
    if (passed < DAY) return `${Math.floor(passed / HOUR)}${THIN}h ago`;
    return moment(at, zone);
}

export type Zone = "local" | "utc";

/** Date and time to the second: `2026-11-12 09:04:05`, with `UTC` where it is that. */
export function moment(at: number, zone: Zone = "local", withMillis = false): string {
    const date = new Date(at);
    if (Number.isNaN(date.getTime())) return ABSENT;
    const utc = zone === "utc";
    const day = [
        utc ? date.getUTCFullYear() : date.getFullYear(),
        two((utc ? date.getUTCMonth() : date.getMonth()) + 1),
        two(utc ? date.getUTCDate() : date.getDate()),
    ].join("-");
    const time = [
        two(utc ? date.getUTCHours() : date.getHours()),
        two(utc ? date.getUTCMinutes() : date.getMinutes()),
        two(utc ? date.getUTCSeconds() : date.getSeconds()),
    ].join(":");
    const millis = withMillis ? `.${String(date.getUTCMilliseconds()).padStart(3, "0")}` : "";
    return `${day} ${time}${millis}${utc ? " UTC" : ""}`;
}

function two(value: number): string {
    return String(value).padStart(2, "0");
}

export function plural(count: number, one: string, many = `${one}s`): string {
    return `${exact(count)} ${count === 1 ? one : many}`;
}

/** Characters that change the direction of a text or cannot be seen, as visible symbols. */
export function visible(text: string): string {
    return text.replace(
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
        /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
        (found) => `⟨${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
    );
}

/** At most `length` characters, with an ellipsis in place of the rest. */
export function shortened(text: string, length: number): string {
    const letters = Array.from(text.length > 4 * length ? text.slice(0, 4 * length) : text);
    return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}…`;
}

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "./api/client";
import { now } from "./live/clock";
import { connection, leader } from "./live/connection";
import { logIn, logOut, session, unreachable } from "./live/session";
import { duration, moment } from "./model/format";
import { hashOf } from "./model/route";
import { EventsPage } from "./pages/events/events";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs/jobs";
import { OverviewPage } from "./pages/overview/overview";
import { Dialog } from "./parts/dialog";
import { THEMES, theme, ZONES, zone } from "./parts/settings";
import { Name } from "./parts/texts";
import { route } from "./router";

const LEADER_BAND = 20_000;
const PAGES = [
    { path: [], title: "Overview" },
    { path: ["jobs"], title: "Jobs" },
    { path: ["events"], title: "Events" },
] as const;

export function App() {
    const known = session.value;
    if (known === undefined) return <Opening />;
    return (
        <>
            <button
                type="button"
                class="skip"
                onClick={() => document.getElementById("main")?.focus()}
            >
                Skip to the content
            </button>
            <Header />
            <ConnectionBand />
            <LeaderBand />
            <main id="main" tabIndex={-1}>
                {known.role === null ? <h1>Stoker</h1> : <CurrentPage />}
            </main>
            <Footer version={known.version} />
            {known.role === null && <LogIn />}
        </>
    );
}

function Opening() {
    return (
        <main id="main">
            <h1>Stoker</h1>
            {unreachable.value !== undefined && (
                <p class="fault" role="status">
                    {unreachable.value} The page tries again every two seconds.
                </p>
            )}
        </main>
    );
}

function CurrentPage() {
    const { path } = route.value;
    const [first, second] = path;
    useEffect(() => {
        const title = first === "jobs" ? (second === undefined ? "Jobs" : "Job") : "Overview";
        document.title = `${title} – Stoker`;
    }, [first, second]);
    if (first === undefined) return <OverviewPage />;
    if (first === "events" && path.length === 1) return <EventsPage />;
    if (first === "jobs" && path.length === 1) return <JobsPage />;
    if (first === "jobs" && second !== undefined && path.length === 2)
        return <JobPage key={second} id={second} />;
    return (
        <>
            <h1>There is no such page</h1>
            <p>
                The address names nothing that is here. <a href="#/">Go to the overview</a>
            </p>
        </>
    );
}

function Header() {
    const known = session.value;
    const current = route.value.path[0];
    return (
        <header>
            <nav aria-label="Pages">
                {PAGES.map(({ path, title }) => (
                    <a
                        key={title}
                        href={hashOf({ path })}
                        aria-current={current === path[0] ? "page" : undefined}
                    >
                        {title}
                    </a>
                ))}
            </nav>
            <div class="header-facts">
                {known !== undefined && known.role !== null && <LeaderName />}
                <Choice
                    label="Times"
                    value={zone.value}
                    options={ZONES}
                    set={(v) => (zone.value = v)}
                />
                <Choice
                    label="Theme"
                    value={theme.value}
                    options={THEMES}
                    set={(v) => (theme.value = v)}
                />
                {known?.name != null && (
                    <span class="user">
                        <Name text={known.name} length={24} />
                        {known.token_wanted && (
                            <button type="button" class="plain" onClick={() => void logOut()}>
                                Log out
                            </button>
                        )}
                    </span>
                )}
            </div>
        </header>
    );
}

function LeaderName() {
    const present = leader.value;
    if (present === undefined) return null;
    if (present.url === undefined) return <span>Nobody leads</span>;
    return (
        <span title={`epoch ${present.epoch ?? "–"}`}>
            <Name text={present.url.replace(/^https?:\/\//, "")} length={48} /> leads
        </span>
    );
}

/** For a while after a change of the leader. */
function LeaderBand() {
    const present = leader.value;
    if (present?.changedAt === undefined || now.value - present.changedAt > LEADER_BAND)
        return null;
    return (
        <p class="band" role="status">
            Another master leads since {moment(present.changedAt, zone.value)}, epoch{" "}
            {present.epoch}. What ran goes on.
        </p>
    );
}

interface ChoiceProps<T extends string> {
    label: string;
    value: T;
    options: readonly T[];
    set: (value: T) => void;
}

function Choice<T extends string>({ label, value, options, set }: ChoiceProps<T>) {
    return (
        <label class="choice">
            {label}{" "}
            <select value={value} onChange={(event) => set(event.currentTarget.value as T)}>
                {options.map((each) => (
                    <option key={each} value={each}>
                        {each === "utc" ? "UTC" : each}
                    </option>
                ))}
            </select>
        </label>
    );
}

function ConnectionBand() {
    const present = connection.value;
    if (present.state !== "lost") return null;
    const next = Math.max(0, present.nextTry - now.value);
    return (
        <p class="band" role="status">
            No news from a master for {duration(now.value - present.since)}: {present.reason}. The
            page tries again {next < 1000 ? "now" : `in ${duration(next)}`}. What runs goes on.
        </p>
    );
}

function LogIn() {
    const [token, setToken] = useState("");
    const [fault, setFault] = useState<string>();
    const [busy, setBusy] = useState(false);
    async function submit(event: Event) {
        event.preventDefault();
        setBusy(true);
        try {
            await logIn(token);
        } catch (error) {
            setFault(error instanceof ApiError ? error.message : String(error));
            setBusy(false);
        }
    }
    return (
        <Dialog title="Log in">
            <form onSubmit={(event) => void submit(event)}>
                <p>
                    This cluster asks for a token. On a local cluster it is in the file that{" "}
                    <code>stoker cluster up</code> named, as a rule{" "}
                    <code>~/.stoker/local/rest-token</code>; others are made by{" "}
                    <code>stoker token create NAME --role read</code>. The page does not keep it.
                </p>
                <label>
                    Token
                    <input
                        type="password"
                        autocomplete="off"
                        spellcheck={false}
                        value={token}
                        aria-invalid={fault !== undefined}
                        aria-describedby="log-in-fault"
                        onInput={(event) => setToken(event.currentTarget.value)}
                    />
                </label>
                <p id="log-in-fault" class="fault" role="alert">
                    {fault}
                </p>
                <Buttons>
                    <button type="submit" class="primary" disabled={busy || token.trim() === ""}>
                        Log in
                    </button>
                </Buttons>
            </form>
        </Dialog>
    );
}

function Buttons({ children }: { children: ComponentChildren }) {
    return <div class="buttons">{children}</div>;
}

function Footer({ version }: { version: string }) {
    return (
        <footer>
            Stoker {version} · <a href="docs">REST API</a>
        </footer>
    );
}

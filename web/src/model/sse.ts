/** Server-sent events, read from pieces of text as they arrive. */

export interface ServerEvent {
    kind: string;
    data: string;
    id: string;
}

/** Nobody sends lines as long as this; a broken proxy must not fill the memory. */
const LONGEST = 4_000_000;

export class EventReader {
    private rest = "";
    private kind = "";
    private data: string[] = [];
    private id = "";

    /** The events that are complete with this piece. */
    add(piece: string): ServerEvent[] {
        this.rest += piece;
        if (this.rest.length > LONGEST) throw new Error("an event is too long");
        const events: ServerEvent[] = [];
        const lines = this.rest.split(/\r\n|\n|\r(?!$)/);
        this.rest = lines.pop() ?? "";
        for (const line of lines) {
            const event = this.take(line);
            if (event !== undefined) events.push(event);
        }
        return events;
    }

    private take(line: string): ServerEvent | undefined {
        if (line === "") {
            const event = { kind: this.kind || "message", data: this.data.join("\n"), id: this.id };
            const isEmpty = this.data.length === 0;
            this.kind = "";
            this.data = [];
            return isEmpty ? undefined : event;
        }
        const colon = line.indexOf(":");
        if (colon === 0) return undefined;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "event") this.kind = value;
        else if (field === "data") this.data.push(value);
        else if (field === "id") this.id = value;
        return undefined;
    }
}

import type { ComponentChildren } from "preact";
import { lookOf, type Shape } from "../model/states";

const RING = <circle cx="8" cy="8" r="5.5" fill="none" stroke-width="2" />;

const SHAPES: Record<Shape, ComponentChildren> = {
    disc: <circle cx="8" cy="8" r="5" fill="currentColor" stroke="none" />,
    tick: <path d="M3 8.5 L6.5 12 L13 4.5" fill="none" stroke-width="2.5" />,
    "square-cross": (
        <>
            <rect x="2" y="2" width="12" height="12" rx="2" fill="currentColor" stroke="none" />
            <path d="M5.5 5.5 L10.5 10.5 M10.5 5.5 L5.5 10.5" class="on-shape" stroke-width="2" />
        </>
    ),
    "round-arrow": (
        <path d="M13 8 A5 5 0 1 1 10.5 3.7 M10.5 1 V4.5 H14" fill="none" stroke-width="2" />
    ),
    "dashed-ring": (
        <circle cx="8" cy="8" r="5.5" fill="none" stroke-width="2" stroke-dasharray="3.5 2.2" />
    ),
    "ring-hand": (
        <>
            {RING}
            <path d="M8 5 V8 L10.5 9.5" fill="none" stroke-width="1.5" />
        </>
    ),
    "ring-stroke": (
        <>
            {RING}
            <path d="M4.5 11.5 L11.5 4.5" stroke-width="2" />
        </>
    ),
    hexagon: (
        <path
            d="M8 1.5 L13.6 4.8 V11.2 L8 14.5 L2.4 11.2 V4.8 Z"
            fill="currentColor"
            stroke="none"
        />
    ),
    "dotted-ring": (
        <circle cx="8" cy="8" r="5.5" fill="none" stroke-width="2" stroke-dasharray="1 2.5" />
    ),
};

/** A state: shape, colour and word, so that none of them is needed to understand it. */
export function Badge({ state, waitsFor }: { state: string; waitsFor?: string | undefined }) {
    const { tone, shape, word } = lookOf(state, waitsFor);
    return (
        <span class="badge">
            <svg class={`tone-${tone}`} viewBox="0 0 16 16" aria-hidden="true">
                {SHAPES[shape]}
            </svg>
            {word}
        </span>
    );
}

/** How long to wait before the next try to reach a master. */

const FIRST = 500;
const LONGEST = 15_000;

/** `random` is from 0 to 1: many pages must not all come back at the same moment. */
export function pauseAfter(failures: number, random: number): number {
    const grown = Math.min(LONGEST, FIRST * 2 ** Math.min(failures, 10));
    return Math.round(grown * (0.75 + 0.5 * random));
}

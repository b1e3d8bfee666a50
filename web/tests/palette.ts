/** Contrast by WCAG 2.2, and the difference of colours as people see them (CIEDE2000). */

type Triple = [number, number, number];

/** Machado, Oliveira and Fernandes (2009), full severity, for linear RGB. */
const SIGHT: Record<string, [Triple, Triple, Triple]> = {
    normal: [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
    ],
    "red-weak": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "green-weak": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "blue-weak": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
};
export const SIGHTS = Object.keys(SIGHT);

function linear(colour: string): Triple {
    const part = (at: number) => {
        const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    return [part(1), part(3), part(5)];
}

const dot = (a: Triple, b: Triple) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

export function contrast(one: string, other: string): number {
    const light = [one, other].map((each) => dot(linear(each), [0.2126, 0.7152, 0.0722]));
    return (Math.max(...light) + 0.05) / (Math.min(...light) + 0.05);
}

function lab(colour: string, sight: string): Triple {
    const rows = SIGHT[sight] as [Triple, Triple, Triple];
    const seen = rows.map((row) => Math.min(1, Math.max(0, dot(row, linear(colour))))) as Triple;
    const root = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
    const x = root(dot(seen, [0.4124564, 0.3575761, 0.1804375]) / 0.95047);
    const y = root(dot(seen, [0.2126729, 0.7151522, 0.072175]));
    const z = root(dot(seen, [0.0193339, 0.119192, 0.9503041]) / 1.08883);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** CIEDE2000 with all weights 1. */
export function difference(one: string, other: string, sight = "normal"): number {
    const [l1, a1, b1] = lab(one, sight);
    const [l2, a2, b2] = lab(other, sight);
    const seventh = (value: number) => Math.sqrt(value ** 7 / (value ** 7 + 25 ** 7));
    const grey = 0.5 * (1 - seventh((Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2));
    const [x1, x2] = [(1 + grey) * a1, (1 + grey) * a2];
    const [c1, c2] = [Math.hypot(x1, b1), Math.hypot(x2, b2)];
    const angle = (x: number, y: number) => ((Math.atan2(y, x) * 180) / Math.PI + 360) % 360;
    const [h1, h2] = [c1 === 0 ? 0 : angle(x1, b1), c2 === 0 ? 0 : angle(x2, b2)];
    const isGrey = c1 * c2 === 0;
    let turn = isGrey ? 0 : h2 - h1;
    if (turn > 180) turn -= 360;
    if (turn < -180) turn += 360;
    let hue = h1 + h2;
    if (!isGrey) hue = Math.abs(h1 - h2) <= 180 ? hue / 2 : (hue + (hue < 360 ? 360 : -360)) / 2;
    const radians = (degrees: number) => (degrees * Math.PI) / 180;
    const [lightness, chroma] = [(l1 + l2) / 2, (c1 + c2) / 2];
    const t =
        1 -
        0.17 * Math.cos(radians(hue - 30)) +
        0.24 * Math.cos(radians(2 * hue)) +
        0.32 * Math.cos(radians(3 * hue + 6)) -
        0.2 * Math.cos(radians(4 * hue - 63));
    const sl = 1 + (0.015 * (lightness - 50) ** 2) / Math.sqrt(20 + (lightness - 50) ** 2);
    const sc = 1 + 0.045 * chroma;
    const sh = 1 + 0.015 * chroma * t;
    const rotation =
        -2 * seventh(chroma) * Math.sin(radians(60 * Math.exp(-(((hue - 275) / 25) ** 2))));
    const light = (l2 - l1) / sl;
    const colourful = (c2 - c1) / sc;
    const turned = (2 * Math.sqrt(c1 * c2) * Math.sin(radians(turn / 2))) / sh;
    return Math.sqrt(light ** 2 + colourful ** 2 + turned ** 2 + rotation * colourful * turned);
}

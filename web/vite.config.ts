import { defineConfig } from "vite";

// The page is served below any path prefix, so all addresses in it are relative.
const master = process.env["STOKER_MASTER"] ?? "http://127.0.0.1:8081";

export default defineConfig({
    base: "./",
    build: {
        outDir: "../src/stoker/web/static",
        emptyOutDir: true,
        // The page's policy allows nothing but files of its own: no `data:` address, no inline code.
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        target: ["chrome120", "firefox121", "safari17"],
        reportCompressedSize: false,
    },
    server: {
        // `make web-dev`: whatever is no file of the page is asked from a running master.
        proxy: {
            "^/(?!$|src/|node_modules/|@|index\\.html|favicon|icon\\.svg)": { target: master },
        },
    },
    test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);

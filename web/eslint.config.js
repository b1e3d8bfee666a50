import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// The page shows texts of strangers, so nothing may ever be read as HTML.
const NO_HTML = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "dangerouslySetInnerHTML",
    "srcdoc",
];

export default tseslint.config(
    { ignores: ["node_modules", "src/api/schema.d.ts"] },
    ...tseslint.configs.strict,
    a11y.flatConfigs.recommended,
    {
        files: ["src/**/*.{ts,tsx}"],
        plugins: { "react-hooks": hooks },
        rules: {
            "react-hooks/rules-of-hooks": "error",
            "no-restricted-syntax": [
                "error",
                ...NO_HTML.flatMap((name) => [
                    {
                        selector: `MemberExpression[property.name="${name}"]`,
                        message: "Texts are no HTML.",
                    },
                    {
                        selector: `JSXAttribute[name.name="${name}"]`,
                        message: "Texts are no HTML.",
                    },
                ]),
                {
                    selector: "JSXAttribute[name.name='style']",
                    message: "Styles belong to src/styles.",
                },
            ],
            "no-restricted-globals": ["error", "eval"],
            "no-console": "error",
        },
    },
);

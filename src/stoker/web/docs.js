"use strict";

const place = document.getElementById("operations");
const found = document.getElementById("found");

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function field(parameter) {
  const input = element("input", { name: parameter.name, required: Boolean(parameter.required) });
  input.dataset.where = parameter.in;
  input.placeholder = parameter.description || parameter.schema?.type || "";
  return element("label", {}, `${parameter.name} (${parameter.in})`, input);
}

/* An example of a body: the names and types of its fields. */
function sample(schema, schemas) {
  const named = schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema;
  const fields = Object.entries(named?.properties || {});
  if (!fields.length) return "{}";
  const lines = fields.map(([name, each]) => `  "${name}": ${each.type || each.oneOf?.[0]?.type || "…"}`);
  return `{\n${lines.join(",\n")}\n}`;
}

function bodyField(operation, schemas) {
  const kinds = Object.keys(operation.requestBody?.content || {});
  if (kinds.includes("multipart/form-data")) {
    return element("label", {}, "file", element("input", { type: "file", name: "file" }));
  }
  if (kinds.length) {
    const text = element("textarea", { name: "body", spellcheck: false });
    text.placeholder = sample(operation.requestBody.content["application/json"]?.schema, schemas);
    return element("label", {}, "body (JSON)", text);
  }
  return null;
}

async function send(method, path, form, output) {
  const query = new URLSearchParams();
  const headers = {};
  const token = document.getElementById("token").value;
  if (token) headers.authorization = `Bearer ${token}`;
  for (const input of form.querySelectorAll("input[data-where]")) {
    if (!input.value) continue;
    if (input.dataset.where === "path") {
      path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    } else if (input.dataset.where === "query") {
      query.set(input.name, input.value);
    } else {
      headers[input.name] = input.value;
    }
  }
  let body;
  const file = form.elements.file;
  if (file && file.files.length) {
    body = new FormData();
    body.append(method === "POST" && path === "/jobs" ? "graph" : "file", file.files[0]);
  } else if (form.elements.body && form.elements.body.value) {
    body = form.elements.body.value;
    headers["content-type"] = "application/json";
  }
  const url = path.slice(1) + (query.size ? `?${query}` : "");
  output.textContent = `${method} /${url} …`;
  try {
    const answer = await fetch(url, { method, headers, body });
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON */ }
    output.textContent = `${answer.status} ${answer.statusText}\n\n${shown.slice(0, 200000)}`;
  } catch (error) {
    output.textContent = String(error);
  }
}

function section(method, path, operation, schemas) {
  const output = element("pre");
  const form = element("form");
  for (const parameter of operation.parameters || []) form.append(field(parameter));
  const body = bodyField(operation, schemas);
  if (body) form.append(body);
  if (!path.endsWith("/events")) form.append(element("button", { type: "submit" }, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(method, path, form, output);
  });
  const answers = Object.entries(operation.responses || {}).map(
    ([status, answer]) => `${status} ${answer.description}`);
  const made = element("details", {},
    element("summary", {},
      element("span", { className: `method ${method.toLowerCase()}` }, method),
      element("code", {}, path), element("span", {}, operation.summary || "")),
    element("p", { className: "answers" }, `Answers: ${answers.join(" · ")}`), form, output);
  made.dataset.words = `${method} ${path} ${operation.summary || ""}`.toLowerCase();
  return made;
}

/* Operations whose paths begin with the same word form a group. */
function group(name) {
  const made = element("section", {}, element("h2", {}, `/${name}`));
  place.append(made);
  return made;
}

async function load() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const description = await answer.json();
  const schemas = description.components?.schemas || {};
  const groups = new Map();
  for (const path of Object.keys(description.paths).sort()) {
    const name = path.split("/")[1];
    if (!groups.has(name)) groups.set(name, group(name));
    for (const [method, operation] of Object.entries(description.paths[path])) {
      groups.get(name).append(section(method.toUpperCase(), path, operation, schemas));
    }
  }
  show("");
}

function show(wanted) {
  let count = 0;
  for (const each of place.children) {
    const operations = [...each.querySelectorAll("details")];
    for (const one of operations) one.hidden = !one.dataset.words.includes(wanted);
    const shown = operations.filter((one) => !one.hidden).length;
    each.hidden = shown === 0;
    count += shown;
  }
  found.textContent = count
    ? `${count} operation${count === 1 ? "" : "s"}`
    : "Nothing is found; look for a part of a path, such as checkpoints, or for a word.";
}

document.getElementById("find").addEventListener("input", (event) => {
  show(event.target.value.trim().toLowerCase());
});
document.getElementById("search").addEventListener("submit", (event) => event.preventDefault());

load().catch((error) => {
  found.textContent = `The description of the API cannot be read (${error.message}); load the page again.`;
});

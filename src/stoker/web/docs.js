"use strict";

const place = document.getElementById("operations");

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

function bodyField(operation) {
  const kinds = Object.keys(operation.requestBody?.content || {});
  if (kinds.includes("multipart/form-data")) {
    return element("label", {}, "file", element("input", { type: "file", name: "file" }));
  }
  if (kinds.length) {
    return element("label", {}, "body (JSON)", element("textarea", { name: "body" }));
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

function section(method, path, operation) {
  const output = element("pre");
  const form = element("form");
  for (const parameter of operation.parameters || []) form.append(field(parameter));
  const body = bodyField(operation);
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
      element("code", {}, path), " ", operation.summary || ""),
    element("p", {}, answers.join(" · ")), form, output);
  made.dataset.words = `${method} ${path} ${operation.summary || ""}`.toLowerCase();
  return made;
}

async function load() {
  const answer = await fetch("openapi.json");
  const description = await answer.json();
  place.textContent = "";
  for (const path of Object.keys(description.paths).sort()) {
    for (const [method, operation] of Object.entries(description.paths[path])) {
      place.append(section(method.toUpperCase(), path, operation));
    }
  }
}

document.getElementById("find").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const each of place.children) each.hidden = !each.dataset.words.includes(wanted);
});

load().catch((error) => { place.textContent = `The document cannot be read: ${error}`; });

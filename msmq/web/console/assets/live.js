// Follows the figures of a page by server-sent events (GET /v1/stream); without this script a page shows those of
// when it was loaded.  The stream of a page is in <body data-stream>; elements name a topic, a key and a kind.
"use strict";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const MOST_ROWS = 500;
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 220;
const HEIGHT = 36;
const FEW = 31; // Samples of five minutes, which is the least that a line is drawn for.

// The rules of msmq/web/console/presentation.py.
function count(number) {
  const digits = String(Math.abs(number));
  return digits.length <= 4 ? String(number) : String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function size(number) {
  let value = number;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${number} B` : `${value.toFixed(1)} ${UNITS[unit]}`;
}

function seconds(number) {
  if (number >= 1) return `${number.toFixed(1)} s`;
  return `${(number * 1000).toFixed(number < 0.01 ? 1 : 0)} ms`;
}

function rate(number) {
  return `${number < 100 ? number.toFixed(1) : count(Math.round(number))}/s`;
}

function visible(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => {
    if (each === "\n" || each === "\t") return each;
    const code = each.codePointAt(0).toString(16);
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
  });
}

function time(text) {
  const moment = new Date(text);
  const local = new Date(moment.getTime() + Number(document.body.dataset.utcOffset) * 1000);
  const element = document.createElement("time");
  const shown = (date) => date.toISOString().slice(0, 19).replace("T", " ");
  element.dateTime = text;
  element.title = `${shown(moment)} UTC`;
  element.textContent = shown(local);
  return element;
}

const KINDS = {
  count,
  size,
  seconds,
  time,
  text: visible,
};

// A flag is shown while its value is set, or its array has the item; its counterpart is shown otherwise.
function isShown({ kind, item }, value) {
  const isSet = item ? Boolean(value?.includes(item)) : Boolean(value) && value.length !== 0;
  return isSet === (kind === "flag");
}

function isFlag(element) {
  return element.dataset.kind === "flag" || element.dataset.kind === "unless";
}

function show(element, value) {
  if (isFlag(element)) {
    element.hidden = !isShown(element.dataset, value);
  } else if (element.dataset.kind === "alarm") {
    element.classList.toggle("alarm", value > 0);
  } else {
    element.replaceChildren(value === null || value === undefined ? "–" : KINDS[element.dataset.kind](value));
  }
}

function showAll(topic, values) {
  for (const element of document.querySelectorAll(`[data-live="${topic}"]`)) {
    if (values === null && isFlag(element)) element.hidden = true;
    else if (values === null) element.replaceChildren("–");
    else show(element, values[element.dataset.key]);
  }
  for (const element of document.querySelectorAll(`[data-gone="${topic}"]`)) element.hidden = values !== null;
}

// The samples of the last hour, of each column.

let samples = [];

function showHistory(history) {
  samples = history.first ? history.samples : samples.concat(history.samples).slice(-360);
  if (samples.length < 2) return;
  for (const figure of document.querySelectorAll("[data-spark]")) {
    const column = history.columns.indexOf(figure.dataset.spark);
    const values = samples.map((sample) => sample[column]);
    const text = figure.dataset.kind === "rate" ? rate : KINDS[figure.dataset.kind];
    const highest = values.reduce((one, other) => Math.max(one, other), 0);
    const svg = figure.querySelector("svg");
    const line = document.createElementNS(SVG, "polyline");
    const step = WIDTH / (Math.max(values.length, FEW) - 1);
    const left = WIDTH - step * (values.length - 1);
    const points = values.map((value, index) => {
      const height = highest === 0 ? 0 : (value / highest) * (HEIGHT - 4);
      return `${(left + index * step).toFixed(1)},${(HEIGHT - 2 - height).toFixed(1)}`;
    });
    line.setAttribute("points", points.join(" "));
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.replaceChildren(line);
    const now = text(values[values.length - 1]);
    const minutes = Math.round(((values.length - 1) * history.interval) / 60);
    svg.setAttribute("aria-label", `now ${now}, at most ${text(highest)} in the last ${minutes} min`);
    figure.querySelector("output").textContent = now;
    figure.querySelector("small").textContent = `at most ${text(highest)} in ${minutes} min`;
  }
  for (const element of document.querySelectorAll("[data-history]")) element.hidden = false;
}

// New entries of the event log, behind those of the page.

function cell(...children) {
  const element = document.createElement("td");
  element.append(...children);
  return element;
}

function isolated(text) {
  const element = document.createElement("bdi");
  element.textContent = text === null || text === undefined ? "–" : visible(text);
  return element;
}

function link(address, ...children) {
  const element = document.createElement("a");
  element.href = address;
  element.append(...children);
  return element;
}

function addEvent(entry) {
  const body = document.querySelector("[data-events]");
  if (body === null || entry.sequence <= Number(body.dataset.events)) return;
  body.dataset.events = entry.sequence;
  let message = "–";
  if (entry.message) {
    const code = Object.assign(document.createElement("code"), { textContent: entry.message });
    message = link(`/explain?message=${encodeURIComponent(entry.message)}`, code);
  }
  const row = document.createElement("tr");
  row.id = `event-${entry.sequence}`;
  const number = cell(link(`/events?after=${entry.sequence - 1}#${row.id}`, String(entry.sequence)));
  number.className = "number";
  const reason = cell(isolated(entry.reason || entry.class_name));
  reason.className = "label";
  const queue = isolated(entry.queue);
  const isLocal = (entry.queue || "").startsWith(".\\");
  row.append(
    number,
    cell(time(entry.time)),
    cell(visible(entry.event)),
    cell(isLocal ? link(`/queue?path=${encodeURIComponent(entry.queue)}`, queue) : queue),
    cell(message),
    reason,
  );
  body.append(row);
  while (body.rows.length > MOST_ROWS) body.rows[0].remove();
  body.closest("[hidden]")?.removeAttribute("hidden");
  for (const element of document.querySelectorAll("[data-no-events]")) element.hidden = true;
}

// The stream, which ends while the page is not visible: a browser has few connections to one server.

let stream = null;
let since = null;
let refusal = "";
let again = null;

function report() {
  const element = document.getElementById("live");
  element.hidden = false;
  element.classList.toggle("bad", since !== null);
  if (since === null) {
    element.removeAttribute("role");
    element.textContent = "Live.";
    return;
  }
  element.setAttribute("role", "alert");
  const reason = refusal ? `: ${visible(refusal)}` : "";
  element.textContent = `Disconnected since ${since.toLocaleTimeString()}${reason}. The figures are those of then.`;
  const link = document.createElement("a");
  link.href = "";
  link.textContent = "Reload";
  element.append(" ", link);
}

function connect() {
  // After the entries that the page has; a reconnection names the last one by itself.
  const last = document.querySelector("[data-events]")?.dataset.events;
  const query = document.body.dataset.stream.replace(/\bafter=\d+/, `after=${last}`);
  stream = new EventSource(`/v1/stream?${query}`);
  stream.addEventListener("open", () => {
    since = null;
    refusal = "";
    report();
  });
  stream.addEventListener("error", () => {
    since ??= new Date();
    report();
    if (stream !== null && stream.readyState === EventSource.CLOSED) {
      // It was refused, by a server that starts or stops for example, and does not connect again by itself.
      again = setTimeout(connect, 5000);
    }
  });
  const on = (topic, use) => stream.addEventListener(topic, (event) => use(JSON.parse(event.data)));
  on("refused", (value) => {
    refusal = value.detail || value.error || "";
  });
  on("overview", (value) => showAll("overview", value));
  on("queue", ({ value }) => showAll("queue", value));
  on("outgoing", ({ value }) => showAll("outgoing", value));
  on("history", showHistory);
  on("event", addEvent);
}

function disconnect() {
  clearTimeout(again);
  stream?.close();
  stream = null;
}

if (document.body.dataset.stream) {
  document.addEventListener("visibilitychange", () => {
    disconnect();
    if (!document.hidden) connect();
  });
  addEventListener("pagehide", disconnect);
  if (!document.hidden) connect();
}

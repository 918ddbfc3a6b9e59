"use strict";
// Elements are made by hand and filled as text: whatever a run is called, it is shown, never run.

function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
  return node;
}

// Another table in the place of one, scrolled to where that was.
function renew(place, table) {
  const { scrollLeft = 0, scrollTop = 0 } = place.firstElementChild ?? {};
  fill(place, table);
  Object.assign(table, { scrollLeft, scrollTop });
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(size >= 100 ? Math.max(digits, 4) : Math.min(digits, 3))));
}

function estimate(value) {
  if (!value || value.mean === null) return "–";
  const shown = number(value.mean, 3);
  return value.low === null ? shown : `${shown} (${number(value.low, 3)} to ${number(value.high, 3)})`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  return seconds > 172800 ? `${(seconds / 86400).toFixed(1)} days`
    : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

// Columns are {key, title, hint, value(row) to sort by, cell(row) to show, number}.
function sortableTable(columns, rows, id) {
  const order = memory.sorted[id] ?? (memory.sorted[id] = { key: null, down: true });
  const body = el("tbody");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", title: column.hint ?? "sort", onclick: () => sortBy(column) }, column.title);
    return el("th", { scope: "col", class: column.number ? "number" : "" }, button);
  });
  function draw() {
    const column = columns.find((each) => each.key === order.key);
    const sorted = [...rows];
    if (column) sorted.sort((a, b) => compare(column.value(a), column.value(b)) * (order.down ? -1 : 1));
    fill(body, sorted.map((row) => el("tr", {}, columns.map((each) =>
      el("td", { class: each.number ? "number" : each.class ?? "" }, each.cell(row))))));
    heads.forEach((head, i) => head.setAttribute("aria-sort",
      columns[i].key !== order.key ? "none" : order.down ? "descending" : "ascending"));
  }
  function sortBy(column) {
    order.down = order.key === column.key ? !order.down : Boolean(column.number);
    order.key = column.key;
    draw();
  }
  draw();
  return el("div", { class: "scroll" }, el("table", { id }, el("thead", {}, el("tr", {}, heads)), body));
}

function compare(a, b) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return missing(a) ? (missing(b) ? 0 : -1) : 1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

// A menu that remembers what was chosen, also when the page is drawn again with fresh data.
function choice(label, id, options, onchange) {
  if (!options.some((option) => option.value === memory.chosen[id])) memory.chosen[id] = options[0]?.value;
  const select = el("select", { id, onchange: () => { memory.chosen[id] = select.value; onchange(); } },
    options.map((option) => el("option", { value: option.value }, option.text)));
  select.value = memory.chosen[id];
  return el("label", {}, label, select);
}

function figure(id, title, caption) {
  return el("figure", {}, el("b", {}, title), el("div", { id, class: "plot" }), el("figcaption", {}, caption));
}

function badge(level, text) {
  return el("span", { class: `badge ${level}` }, text);
}

// What a reader has chosen survives a new drawing.
const memory = { sorted: {}, chosen: {} };

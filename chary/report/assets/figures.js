"use strict";
// Figures from plain data; each draws into a place by its id and may be called again with fresh data.

const COLOURS = ["#3b78b8", "#d9822b", "#3a9a74", "#c2554a", "#8268b8", "#94744f", "#c46fa4", "#77828c", "#a39b2e", "#2e9fb5"];
const colour = (index) => COLOURS[index % COLOURS.length];
const colourOf = (data, method) => colour(data.methods.indexOf(method)); // the same in all figures
const faint = (hex, share) => hex + Math.round(255 * share).toString(16).padStart(2, "0");

// Plotly reads tags in what it writes; a name must stay a name.
function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

// A long name over several lines, so that it leaves room for what it names.
function folded(text, most = 18) {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    const line = lines[lines.length - 1];
    if (line && line.length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines.map(plain).join("<br>");
}

function shade(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(title, more = {}) {
  return { title: { text: plain(title), standoff: 8 }, gridcolor: shade("--line"), zerolinecolor: shade("--line"),
    linecolor: shade("--line"), automargin: true, ...more };
}

// Zoom and hidden curves stay for as long as `uirevision` does: a figure that shows one thing or another must name it.
function show(id, traces, { x, y, height = 300, ...layout }) {
  const place = document.getElementById(id);
  const legend = { orientation: "h", yref: "container", yanchor: "bottom", y: 0, x: 0, font: { size: 12 } };
  const everything = {
    xaxis: x, yaxis: y, height, legend, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12.5, color: shade("--ink") }, margin: { l: 56, r: 14, t: 14, b: 48 },
    hoverlabel: { bgcolor: shade("--card"), bordercolor: shade("--line"), font: { color: shade("--ink") }, namelength: 60 },
    uirevision: id, ...layout,
  };
  const paint = () => Plotly.react(place, traces, everything, { responsive: true, displayModeBar: false });
  if (place.classList.contains("js-plotly-plot")) return paint();
  place.style.minHeight = `${height}px`; // so that nothing moves when it is painted
  unpainted.set(place, paint);
}

// A figure costs some 50 ms, and there may be twenty. Those in view are painted at once and the page is ready;
// the others follow one by one, with room between them for whatever the reader does.
const unpainted = new Map();

function inView(place) {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function paintOne(place) {
  const paint = unpainted.get(place);
  unpainted.delete(place);
  paint();
}

function paintInView() {
  for (const place of [...unpainted.keys()].filter(inView)) paintOne(place);
}

function paintTheRest() {
  const places = [...unpainted.keys()];
  if (places.length) paintOne(places.find(inView) ?? places[0]);
  if (unpainted.size) setTimeout(paintTheRest);
  else document.body.dataset.painted = "true";
}

addEventListener("beforeprint", () => [...unpainted.keys()].forEach(paintOne));

// A line with the band of its interval; both go when the legend's entry is clicked.
function lineWithBand(name, x, curve, hex, { band = true, hover } = {}) {
  const group = plain(name);
  const interval = (i) => (curve.low[i] === null ? "" : ` (${number(curve.low[i], 3)} to ${number(curve.high[i], 3)})`);
  const traces = [{ type: "scatter", mode: x.length < 40 ? "lines+markers" : "lines", x, y: curve.mean, name: group,
    legendgroup: group, line: { color: hex, width: 2 }, marker: { size: 5 },
    ...(hover ? { text: x.map((_, i) => interval(i)), hovertemplate: `${hover}: %{y:.3~g}%{text}<extra>${group}</extra>` } : {}) }];
  if (band && curve.low.some((value) => value !== null)) {
    const known = x.map((_, i) => i).filter((i) => curve.low[i] !== null);
    const there = known.map((i) => x[i]);
    traces.unshift({ type: "scatter", mode: "lines", x: [...there, ...there.toReversed()],
      y: [...known.map((i) => curve.high[i]), ...known.map((i) => curve.low[i]).toReversed()],
      fill: "toself", fillcolor: faint(hex, 0.15), line: { width: 0 }, legendgroup: group, name: group, showlegend: false, hoverinfo: "skip" });
  }
  return traces;
}

function line(name, x, y, hex, more = {}) {
  return { type: "scatter", mode: x.length < 40 ? "lines+markers" : "lines", x, y, name: plain(name),
    line: { color: hex, width: 2, ...(more.dash ? { dash: more.dash } : {}) }, marker: { size: 5, color: hex }, ...more.trace };
}

function bars(id, histogram, title, counted) {
  const { edges, counts } = histogram;
  const middles = counts.map((_, i) => (edges[i] + edges[i + 1]) / 2);
  show(id, [{ type: "bar", x: middles, y: counts, width: edges[1] - edges[0], marker: { color: colour(0) },
    hovertemplate: `${plain(title)} %{x:.4g}: %{y:,}<extra></extra>` }],
  { x: axis(title), y: axis(counted), height: 240, bargap: 0.05 });
}

// Dots with error bars, the best on top.
function dots(id, rows, title) {
  const names = rows.map((row) => folded(row.name)).toReversed();
  const at = rows.toReversed();
  const away = (key) => at.map((row) => (row[key] === null ? 0 : Math.abs(row[key] - row.mean)));
  show(id, [{ type: "scatter", mode: "markers", x: at.map((row) => row.mean), y: names, marker: { size: 10, color: colour(0) },
    error_x: { type: "data", symmetric: false, array: away("high"), arrayminus: away("low"), color: shade("--quiet") },
    hovertemplate: "%{y}: %{x:.4g}<extra></extra>" }],
  { x: axis(title), y: axis("", { type: "category" }), height: 110 + 34 * rows.length });
}

function matrix(id, names, table, title) {
  const labels = names.map((name) => folded(name));
  const z = table.map((row) => row.map((cell) => cell && cell[0])).toReversed();
  const text = z.map((row) => row.map((value) => (value === null ? "" : value.toFixed(2))));
  const hover = table.map((row, i) => row.map((cell, j) => (cell
    ? `${labels[i]} beats ${labels[j]}: ${cell[0].toFixed(2)}` + (cell[1] === null ? "" : ` (${cell[1].toFixed(2)} to ${cell[2].toFixed(2)})`) : ""))).toReversed();
  show(id, [{ type: "heatmap", x: names.map(plain), y: labels.toReversed(), z, text, texttemplate: "%{text}", hovertext: hover, hoverinfo: "text",
    zmin: 0, zmax: 1, zmid: 0.5, colorscale: [[0, "#c2554a"], [0.5, shade("--note-soft")], [1, "#3b78b8"]], showscale: false, xgap: 2, ygap: 2 }],
  { x: axis("... this one", { type: "category" }), y: axis(title, { type: "category" }), height: 190 + 44 * names.length });
}

// A picture of a maze: heat, walls, goal, start, paths and single places, as far as they are known.
function mazeMap(id, heat, geometry, paths, title, places) {
  const traces = [{ type: "heatmap", ...heat, colorbar: { orientation: "h", thickness: 9, len: 0.9, y: -0.02, yanchor: "top", tickfont: { size: 11 } },
    hovertemplate: `x %{x:.2f}, y %{y:.2f}: %{z:.4g}<extra>${plain(title)}</extra>` }];
  for (const [x, y] of paths ?? []) {
    traces.push({ type: "scatter", mode: "lines", x, y, line: { color: "#e8893a", width: 1.6 }, hoverinfo: "skip" });
    traces.push({ type: "scatter", mode: "markers", x: x.slice(-1), y: y.slice(-1), marker: { symbol: "x-thin", size: 8, line: { width: 2, color: shade("--ink") } }, hoverinfo: "skip" });
  }
  if (places) traces.push({ type: "scatter", mode: "markers", x: places.x, y: places.y, marker: { size: 3.5, color: "#e8893a" }, hoverinfo: "skip" });
  const mark = (point, symbol, fill) => point && traces.push({ type: "scatter", mode: "markers", x: [point[0]], y: [point[1]], hoverinfo: "skip",
    marker: { symbol, size: symbol === "star" ? 15 : 11, color: fill, line: { width: 1.5, color: "#222" } } });
  mark(geometry?.goal, "star", "#e8544a");
  mark(geometry?.start, "circle", "#ffffff");
  const half = (geometry?.cell ?? 0) / 2;
  const shapes = (geometry?.walls ?? []).map(([x, y]) => ({ type: "rect", x0: x - half, x1: x + half, y0: y - half, y1: y + half,
    fillcolor: shade("--wall"), line: { width: 1, color: shade("--wall") }, layer: "above" }));
  const [left, right, bottom, top] = geometry?.extent ?? heat.extent;
  const bare = { showgrid: false, zeroline: false, showticklabels: false, ticks: "" };
  const height = Math.min(460, Math.max(230, 300 * (top - bottom) / (right - left))) + 50;
  return show(id, traces, { x: { range: [left, right], constrain: "domain", ...bare }, y: { range: [bottom, top], scaleanchor: "x", constrain: "domain", ...bare },
    height, showlegend: false, shapes, margin: { l: 4, r: 4, t: 6, b: 40 }, uirevision: undefined });
}

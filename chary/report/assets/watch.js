// The live page: asks for news, keeps what it knows of every run, and draws what has changed.
"use strict";

const PERIOD = 1500; // milliseconds between two questions, at least
const runs = new Map(); // what is known of each run, by its name
let version = 0;

async function ask() {
  let took = 0;
  try {
    const answer = await fetch(`news?since=${version}`, { signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    if (answer.status === 200) {
      const news = await answer.json();
      const began = performance.now();
      take(news);
      took = performance.now() - began;
    }
    pulse(`${runs.size} run${runs.size === 1 ? "" : "s"}, as of ${clock(Date.now() / 1000)}`);
  } catch {
    pulse("No answer. Is `chary watch` still running? This page goes on asking.", true);
  }
  // Drawing hundreds of runs takes long; a page that only draws cannot be used.
  setTimeout(ask, Math.max(PERIOD, 4 * took));
}

function take(news) {
  version = news.version;
  const known = new Map(runs);
  runs.clear();
  for (const name of news.runs) runs.set(name, news.changed[name] ?? known.get(name));
  list(document.getElementById("problems"), news.problems);
  show();
}

function show() {
  const wanted = document.getElementById("filter").value.toLowerCase();
  const shown = [...runs].filter(([name]) => name.toLowerCase().includes(wanted));
  showProgress(shown);
  showMetricNames(shown);
  lines("scores", shown, (run) => [run.evaluations.step, run.evaluations.score]);
  const metric = document.getElementById("metric").value;
  lines("metrics", shown, (run) => [run.metrics.step, run.metrics[metric] ?? []]);
}

function showProgress(shown) {
  const rows = shown.map(([name, run]) => {
    const { state, step, steps, seconds_left, written } = run.progress;
    const row = document.createElement("tr");
    row.dataset.run = name;
    row.dataset.state = state;
    const bar = document.createElement("progress");
    [bar.max, bar.value] = [steps, step];
    const since = state === "silent" ? ` since ${clock(written)}` : "";
    const cells = [name, state + since, bar, `${count(step)} of ${count(steps)}`, duration(seconds_left)];
    row.append(...[...cells, figure(run.last), figure(run.best), figure(run.speed)].map(cell));
    return row;
  });
  document.querySelector("#progress tbody").replaceChildren(...rows);
}

function showMetricNames(shown) {
  const names = new Set(shown.flatMap(([, run]) => Object.keys(run.metrics)));
  names.delete("step");
  const choice = document.getElementById("metric");
  const listed = [...choice.options].map((option) => option.value);
  if (listed.length === names.size && listed.every((name) => names.has(name))) return;
  const chosen = choice.value;
  choice.replaceChildren(...[...names].sort().map((name) => new Option(name, name)));
  if (names.has(chosen)) choice.value = chosen;
}

// One line a run, laid over each other; zoom and what the legend hides stay as they are.
function lines(id, shown, columns) {
  const traces = shown.map(([name, run], index) => {
    const [x, y] = columns(run);
    return { x, y, uid: name, name: plain(name), mode: y.length > 50 ? "lines" : "lines+markers", line: { color: colour(index) } };
  });
  draw(document.querySelector(`#${id} .chart`), traces);
}

function pulse(text, lost = false) {
  const line = document.getElementById("pulse");
  line.textContent = text;
  line.classList.toggle("lost", lost);
}

function list(element, texts) {
  element.replaceChildren(
    ...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text }))
  );
}

function cell(content) {
  const element = document.createElement("td");
  element.append(content);
  return element;
}

function draw(element, traces) {
  const style = getComputedStyle(document.documentElement);
  const [ink, grid] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid };
  const layout = {
    uirevision: "kept",
    margin: { l: 50, r: 10, t: 10, b: 40 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { color: ink },
    xaxis: { ...axis, title: { text: "step" }, rangemode: "tozero" },
    yaxis: axis,
    showlegend: true,
    legend: { orientation: "h", y: -0.25 },
  };
  Plotly.react(element, traces, layout, { responsive: true, displaylogo: false });
}

const COLOURS = ["#4269d0", "#c9780a", "#d9413b", "#3a9d93", "#3ca951", "#d2669a", "#8f5fc7", "#2f8ec6", "#9c6b4e", "#7d8590"];
const colour = (index) => COLOURS[index % COLOURS.length];
// Plotly reads some HTML in names; a run's name is text.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const count = (number) => number.toLocaleString("en");
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const figure = (number) => (number == null ? "" : Number(number.toPrecision(3)).toLocaleString("en"));

function duration(seconds) {
  if (seconds == null) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  if (seconds > 2 * 86400) return `${(seconds / 86400).toFixed(1)} days`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

document.getElementById("filter").addEventListener("input", show);
document.getElementById("metric").addEventListener("change", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
ask();

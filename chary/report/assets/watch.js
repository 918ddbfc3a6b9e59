"use strict";
// The live page: asks for news, keeps what it knows of every run, and draws the report's sections with it.

const PERIOD = 1500; // milliseconds between two questions, at least
const STATES = { training: "note", done: "good", silent: "warning", diverged: "bad" };
const live = { runs: [] }; // one object for ever, so that menus draw the newest, whenever they were made
let version = 0;
let shape = "";

const progress = {
  id: "progress",
  title: "Progress",
  build(data) {
    if (!data.runs.length) return [el("p", {}, "There are no runs in this folder yet. They are shown as soon as they begin.")];
    return [el("div", { id: "progress-table" })];
  },
  draw(data) {
    const columns = [
      { key: "name", title: "run", class: "name", value: (r) => r.name, cell: (r) => r.name },
      { key: "state", title: "state", class: "state", value: (r) => r.progress.state, cell: (r) => badge(STATES[r.progress.state], stateOf(r)) },
      { key: "step", title: "steps", class: "state", value: (r) => r.step / r.goal, cell: (r) => [`${number(r.step)} of ${number(r.goal)}`, el("progress", { max: r.goal, value: r.step })] },
      { key: "left", title: "time left", number: true, hint: "at the speed of the last log lines, including evaluations", value: (r) => r.progress.left, cell: (r) => duration(r.progress.left) },
      { key: "last", title: "last", number: true, hint: "at the last evaluation", value: (r) => r.last?.[r.measure], cell: (r) => number(r.last?.[r.measure], 3) },
      ...(data.runs.some((r) => r.last?.sampled) ? [{ key: "sampled", title: "sampled", number: true, hint: "at the last evaluation, with sampled actions", value: (r) => r.last?.sampled?.[r.measure], cell: (r) => number(r.last?.sampled?.[r.measure], 3) }] : []),
      { key: "best", title: "best", number: true, hint: "at the best evaluation", value: (r) => r.best?.[r.measure], cell: (r) => number(r.best?.[r.measure], 3) },
      { key: "speed", title: speedOf(data.runs), number: true, value: (r) => r.speed, cell: (r) => number(r.speed, 3) },
      { key: "verdict", title: "critics", class: "verdicts", value: (r) => GRAVEST_FIRST.indexOf(r.verdicts[0].level), cell: (r) => badge(r.verdicts[0].level, r.verdicts[0].title) },
    ];
    if (data.runs.length) renew(document.getElementById("progress-table"), sortableTable(columns, data.runs, "runs"));
  },
};

function stateOf(run) {
  return run.progress.state === "silent" ? `silent since ${clock(run.progress.written)}` : run.progress.state;
}

function clock(seconds) {
  const then = new Date(1000 * seconds), today = new Date().toDateString() === then.toDateString();
  return today ? then.toLocaleTimeString("en-GB") : then.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

async function ask() {
  let took = 0;
  try {
    const answer = await fetch(`news?since=${version}`, { signal: AbortSignal.timeout(60_000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    if (answer.status === 200) {
      const news = await answer.json(), began = performance.now();
      take(news);
      took = performance.now() - began;
    }
    pulse(live.unread ? `· reading ${several(live.unread, "more run")} ...` : `· live, as of ${clock(Date.now() / 1000)}`);
  } catch (error) {
    pulse("· no answer: is chary watch still running? This page keeps trying.", "lost");
    if (!(error instanceof TypeError || error instanceof DOMException)) console.error(error);
  }
  // Drawing hundreds of runs takes long, and a page that only draws cannot be used.
  setTimeout(ask, Math.max(PERIOD, 4 * took));
}

function take({ news, names, changed, ...all }) {
  const known = new Map([...live.runs, ...changed].map((run) => [run.name, run]));
  Object.assign(live, all, { runs: names.map((name) => known.get(name)) });
  live.groups.forEach((group, index) => group.names.forEach((name) => (known.get(name).group = index)));
  version = news;
  redraw();
}

// A page is built anew only when there is something else on it; otherwise figures and tables are brought up to
// date where they are, and zoom, legend and focus stay.
function redraw({ anew = false } = {}) {
  const sections = live.runs.length ? [progress, learning, online, health, warnings] : [progress, warnings];
  const now = JSON.stringify([live.runs.map((run) => [run.name, Object.keys(run.metrics), Boolean(run.health), Boolean(run.online), Boolean(run.online?.maps)]), live.groups.map((group) => [group.method, group.dataset]),
    live.learning.map((curves) => Object.keys(curves)), live.warnings, live.thinned]);
  if (anew || now !== shape) draw(live, { title: "Runs", sections });
  else for (const section of sections) if (document.getElementById(section.id)) section.draw?.(live);
  shape = now;
}

function pulse(text, state = "") {
  const line = document.getElementById("pulse");
  line.textContent = text;
  line.className = state;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => version && redraw({ anew: true }));
ask();

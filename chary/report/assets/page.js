"use strict";
// The page: drawn from data as often as there is fresh data; what was chosen stays chosen.

const SECTIONS = [summary, learning, online, statistics, selection, budget, health, maze, strip, datasets, reproduction, warnings];

// Without a simulator the first question is where the policy leaves the data.
function order(data) {
  return evaluated(data) ? SECTIONS : [summary, health, ...SECTIONS.filter((each) => each !== summary && each !== health)];
}

function draw(data, { title, sections = order(data) } = {}) {
  const tasks = distinct(data.runs.map((run) => run.dataset));
  const methods = distinct(data.runs.map((run) => run.algorithm));
  const name = title ?? `${methods.join(", ")} on ${tasks.length > 3 ? several(tasks.length, "dataset") : tasks.join(", ")}`;
  document.getElementById("title").textContent = name;
  document.title = `${name} · chary`;
  document.getElementById("subtitle").textContent = `${several(data.runs.length, "run")}, ${several(data.groups.length, "setting")}, ${several(tasks.length, "dataset")}` +
    (data.warnings.length ? `, ${several(data.warnings.length, "warning")}` : "");
  const built = sections.map((section) => ({ section, parts: section.build(data) })).filter(({ parts }) => parts);
  for (const place of document.querySelectorAll(".plot.js-plotly-plot")) Plotly.purge(place);
  unpainted.clear();
  delete document.body.dataset.painted;
  fill(document.getElementById("contents"), built.map(({ section }) => el("a", { href: `#${section.id}` }, section.title)));
  fill(document.getElementById("page"), built.map(({ section, parts }) => el("section", { id: section.id }, el("h2", {}, section.title), parts)));
  document.getElementById("foot").textContent = `Made by chary ${data.version} from run folders alone. In figures: drag to zoom, double-click to reset.`;
  for (const { section } of built) section.draw?.(data);
  paintInView();
  document.body.dataset.ready = "true";
  performance.mark("ready");
  setTimeout(paintTheRest);
}

const inlined = document.getElementById("data");
if (inlined?.textContent.trim()) {
  const data = JSON.parse(inlined.textContent);
  draw(data);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(data));
}

"use strict";
// What the critics believe, and whether to believe them.

// Matplotlib's inferno at a few places.
const INFERNO = [[0, "#000004"], [0.2, "#420a68"], [0.4, "#932667"], [0.6, "#dd513a"], [0.8, "#fca50a"], [1, "#fcffa4"]];
const GRAVEST_FIRST = ["bad", "warning", "note", "good"];

const health = {
  id: "health",
  title: "Can the critics be believed?",
  build(data) {
    const rows = data.runs;
    const judged = rows.filter((run) => run.health);
    const parts = [
      el("p", {}, "Pessimism is only as good as the uncertainty behind it. Members should disagree where the data ends, their mean should match the returns on average, and returns should stay above the lower confidence bound (LCB). Values are in the learner's reward units, after scaling."),
      rows.length > 1 ? el("div", { id: "verdict-table" }) : null,
    ];
    const options = (judged.length ? judged : rows).map((run) => ({ value: run.name, text: run.name }));
    const menu = choice("look at", "run", options, () => health.draw(data));
    parts.push(el("div", { class: "choices" }, rows.length > 1 ? menu : null), el("div", { id: "verdict-list" }));
    if (judged.length) {
      const thinned = data.thinned.health ? ` At most ${data.thinned.health} evaluations are shown, evenly spaced.` : "";
      const swept = judged.some((run) => run.health.sweep), promised = judged.some((run) => run.health.calibration);
      parts.push(el("div", { class: "figures" },
        figure("relative", "Where the data ends", "How much members differ in the part that depends on the action: the standard deviation of Q(s, a) − Q(s, π(s)), at 256 states of the data, for logged, perturbed and random actions. It should be largest for random actions, because the data has none like them. The right axis is the area under the ROC curve for separating random from logged actions: 1 is perfect, 0.5 is chance." + thinned),
        figure("disagreement", "Disagreement", "The members' standard deviation. It includes offsets between members, which do not depend on the action. Off the data: states whose columns come from different rows."),
        promised ? figure("calibration", "Promised and achieved", "What the critics expect at the start of episodes, and the discounted return that followed. Grey lines are the smallest and largest return possible with the data's rewards.") : null,
        promised ? figure("starts", "Episode by episode", "The last evaluation: expected return on the horizontal axis, achieved return on the vertical axis. On the diagonal both agree; below it the critics promised too much. Points of the bound should lie above the diagonal.") : null,
        figure("members", "Members that count", "The effective number of members, from the correlation of their errors: identical members count as one, independent members fully." + (promised ? " The second line is the share of episodes in which the bound held, on the right axis." : ""))));
      if (judged.some((run) => run.health.actions)) {
        parts.push(el("h3", {}, "Where the policy leaves the data"),
          el("p", {}, "Logged actions and the policy's, at the same 256 states of the data. A trained policy acts differently, but where the data has no bars the effect of its actions is unknown."),
          el("div", { id: "actions", class: "figures small" }));
      }
      if (swept) {
        parts.push(el("h3", {}, "Uncertainty, one input at a time"),
          el("p", {}, "States of the data with one column moved through its range and beyond, and all other columns as logged. The line is the members' standard deviation for the policy's action; the bars are the data. Where the bars end, the line should rise. Columns along which it rises most come first."),
          el("div", { id: "sweep", class: "figures small" }));
      }
    }
    return parts;
  },
  draw(data) {
    const columns = [
      { key: "name", title: "run", class: "name", value: (r) => r.name, cell: (r) => r.name },
      { key: "members", title: "members", number: true, value: (r) => r.health?.members, cell: (r) => number(r.health?.members ?? null) },
      { key: "effective", title: "count as", number: true, hint: "effective number of members", value: (r) => last(r.health?.effective), cell: (r) => number(last(r.health?.effective), 2) },
      { key: "held", title: "bound held", number: true, hint: "share of episodes", value: (r) => last(r.health?.calibration?.held), cell: (r) => { const held = last(r.health?.calibration?.held); return held === null ? "–" : `${Math.round(100 * held)}%`; } },
      { key: "verdict", title: "verdict", class: "verdicts", value: (r) => GRAVEST_FIRST.indexOf(r.verdicts[0].level), cell: (r) => badge(r.verdicts[0].level, r.verdicts[0].title) },
    ];
    if (data.runs.length > 1) renew(document.getElementById("verdict-table"), sortableTable(columns, data.runs, "verdicts"));
    const run = data.runs.find((each) => each.name === memory.chosen.run);
    fill(document.getElementById("verdict-list"), run.verdicts.map((verdict) => el("div", { class: `verdict ${verdict.level}` },
      el("b", {}, verdict.title), el("span", {}, verdict.text + (verdict.advice ? ` ${verdict.advice}` : "")))));
    const found = run.health;
    if (!found) return;
    const uirevision = run.name, steps = stepsOf([run]);
    const named = { random: ["random actions", 3], perturbed: ["perturbed actions", 5], policy: ["policy's actions", 1], data: ["logged actions", 0], off: ["off the data", 4] };
    const lines = (values) => Object.entries(named).filter(([kind]) => values[kind]).map(([kind, [name, which]]) => line(name, found.step, values[kind], colour(which)));
    show("relative", [...lines(found.relative), line("area under the curve", found.step, found.told_apart.random, shade("--quiet"), { dash: "dot", trace: { yaxis: "y2" } })],
      { x: axis(steps), y: axis("std, action-dependent part", { rangemode: "tozero" }), yaxis2: axis("area", { overlaying: "y", side: "right", range: [0, 1.02], showgrid: false }), uirevision });
    show("disagreement", lines(found.std), { x: axis(steps), y: axis("std of the members", { rangemode: "tozero" }), uirevision });
    const held = found.calibration ? promises(found, steps, uirevision) : [];
    show("members", [line("effective members", found.step, found.effective, colour(5)), ...held],
      { x: axis(steps), y: axis(`members, of ${found.members}`, { range: [0, found.members * 1.05] }),
        yaxis2: axis("share of episodes", { overlaying: "y", side: "right", range: [0, 1.05], showgrid: false }), uirevision });
    if (document.getElementById("actions")) chosen(found.actions ?? [], uirevision);
    if (document.getElementById("sweep")) sweeps(found.sweep ?? [], uirevision);
  },
};

// What was promised at the start of episodes; gives the line of how often the bound held.
function promises(found, steps, uirevision) {
  const { step, mean, lcb, achieved, held, starts } = found.calibration;
  const bounds = (found.bounds ?? []).map((bound, i) => line(i ? "largest possible" : "smallest possible", [step[0], last(step)], [bound, bound], shade("--quiet"), { dash: "dot", trace: { mode: "lines" } }));
  const known = lcb.some((value) => value !== null);
  show("calibration", [line("achieved", step, achieved, colour(2)), line("expected: mean", step, mean, colour(0)),
    ...(known ? [line("promised: LCB", step, lcb, colour(4))] : []), ...bounds], { x: axis(steps), y: axis("discounted return"), uirevision });
  const all = [...starts.mean, ...starts.achieved, ...(starts.lcb ?? [])].filter((value) => value !== null);
  const ends = [Math.min(...all), Math.max(...all)];
  const cloud = (name, x, hex) => ({ type: "scatter", mode: "markers", x, y: starts.achieved, name, marker: { color: faint(hex, 0.75), size: 7 } });
  show("starts", [{ type: "scatter", mode: "lines", x: ends, y: ends, line: { color: shade("--quiet"), dash: "dot", width: 1 }, name: "comes true", hoverinfo: "skip" },
    cloud("mean", starts.mean, colour(0)), ...(starts.lcb ? [cloud("LCB", starts.lcb, colour(4))] : [])],
  { x: axis("expected at the start"), y: axis("discounted return"), uirevision });
  return known ? [line("bound held", step, held, colour(4), { trace: { yaxis: "y2" } })] : [];
}

const MOST_SWEPT = 12;

function chosen(actions, uirevision) {
  const shown = actions.slice(0, MOST_SWEPT);
  fill(document.getElementById("actions"), shown.map((action, i) => figure(`action-${i}`, action.name, `In ${Math.round(100 * action.outside)}% of the states outside the middle 98% of the data`)));
  shown.forEach((action, i) => {
    const middles = action.logged.map((_, k) => (action.edges[k] + action.edges[k + 1]) / 2);
    const bar = (name, y, hex) => ({ type: "bar", x: middles, y, name, width: action.edges[1] - action.edges[0], marker: { color: faint(hex, 0.5) } });
    show(`action-${i}`, [bar("logged", action.logged, colour(0)), bar("policy", action.policy, colour(1))],
      { x: axis(action.name), y: axis("states"), height: 220, barmode: "overlay", bargap: 0, uirevision });
  });
}

function sweeps(columns, uirevision) {
  const shown = columns.slice(0, MOST_SWEPT);
  fill(document.getElementById("sweep"), shown.map((column, i) => figure(`sweep-${i}`, column.name, `${number(column.growth, 2)} times the uncertainty beyond the data`)));
  shown.forEach((column, i) => {
    const step = column.values[1] - column.values[0];
    show(`sweep-${i}`, [
      { type: "bar", x: column.values, y: column.counts, width: step, yaxis: "y2", name: "data", marker: { color: faint(colour(0), 0.3) } },
      { type: "scatter", mode: "lines", x: column.values, y: column.std, name: "uncertainty", line: { color: colour(3), width: 2 } },
    ], { x: axis(column.name), y: axis("std", { rangemode: "tozero" }), yaxis2: { overlaying: "y", side: "right", visible: false, rangemode: "tozero" },
      height: 200, showlegend: false, bargap: 0, uirevision });
  });
  if (columns.length > MOST_SWEPT) document.getElementById("sweep").append(el("p", {}, `The other ${columns.length - MOST_SWEPT} columns are in the run's diagnostics.`));
}

function last(values) {
  return values?.length ? values[values.length - 1] : null;
}

const maze = {
  id: "maze",
  title: "The maze as the critics see it",
  build(data) {
    if (!data.mazes.length) return null;
    const options = data.mazes.map((each) => ({ value: each.run, text: each.run }));
    const menu = choice("run", "maze-run", options, () => { memory.frame = undefined; maze.draw(data); });
    const slider = el("input", { type: "range", id: "frame", min: 0, step: 1, "aria-label": "evaluation", oninput: () => { memory.frame = Number(slider.value); maze.draw(data); } });
    return [
      el("p", {}, "Values of a body at rest, for the policy's action, at every place. Move the slider to go through training; colours mean the same at every step." + (data.thinned.maps ? ` To keep the page small, ${data.thinned.maps}.` : "")),
      el("div", { class: "choices" }, options.length > 1 ? menu : null, el("label", {}, "training", slider, el("output", { id: "frame-step", for: "frame" }))),
      el("div", { class: "figures maps" },
        figure("map-mean", "Mean", "Higher towards the goal, if the critics have found the path."),
        figure("map-std", "Standard deviation", "Bright where members disagree: where the data is thin."),
        figure("map-lcb", "Lower confidence bound", "What the policy maximises: mean and standard deviation together."),
        figure("map-paths", "Data and paths", "How much data there is (lighter is more, logarithmic) and where the policy went. Circle: start, star: goal, cross: where a path ended.")),
    ];
  },
  draw(data) {
    const found = data.mazes.find((each) => each.run === memory.chosen["maze-run"]);
    const frames = found.frames, newest = frames.length - 1;
    const frame = frames[Math.min(memory.frame ?? newest, newest)];
    const slider = document.getElementById("frame");
    slider.max = newest;
    slider.value = frames.indexOf(frame);
    document.getElementById("frame-step").textContent = `step ${number(frame.step)}`;
    const run = data.runs.find((each) => each.name === found.run);
    const summary = data.datasets.find((each) => each.fingerprint === run.made_by.fingerprint)?.summary;
    const spacing = found.x[1] - found.x[0], half = spacing / 2;
    const extent = [found.x[0] - half, last(found.x) + half, found.y[0] - half, last(found.y) + half];
    for (const [kind, colorscale] of [["mean", "Viridis"], ["std", INFERNO], ["lcb", "Viridis"]]) {
      const [zmin, zmax] = found.limits[kind];
      mazeMap(`map-${kind}`, { x: found.x, y: found.y, z: decoded(frame[kind], found.x.length, zmin, zmax), zmin, zmax, colorscale, extent }, summary?.maze ?? { extent }, null, kind);
    }
    if (summary?.coverage) coverage("map-paths", summary, frame.paths);
    else mazeMap("map-paths", { x: found.x, y: found.y, z: decoded(frame.mean, found.x.length, 1, 1), colorscale: [[0, "#8884"], [1, "#8884"]], showscale: false, extent }, { extent }, frame.paths, "free");
  },
};

// A byte a point between the limits, 255 for walls.
function decoded(text, width, low, high) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const rows = [];
  for (let start = 0; start < bytes.length; start += width) {
    rows.push(Array.from(bytes.subarray(start, start + width), (byte) => (byte === 255 ? null : low + byte / 254 * (high - low))));
  }
  return rows;
}

"use strict";
// The sections of a page. Each is {id, title, build(data) -> elements or null, draw(data)}: `build` makes the
// places, `draw` fills them once they are on the page, and again when a choice changes.

const NAMES = { score: "normalised score", success: "share of episodes that succeed", return: "return", length: "episode length (steps)" };
// What the steps of runs, or of groups of runs, are.
function stepsOf(runs) {
  const online = runs.filter((run) => run.online).length;
  return online === 0 ? "gradient steps" : online === runs.length ? "environment steps" : "gradient or environment steps";
}
const speedOf = (runs) => (runs.some((run) => run.online) ? "steps/s" : "updates/s");
const several = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const distinct = (values) => [...new Set(values)];

const summary = {
  id: "summary",
  title: "Summary",
  build(data) {
    const measures = distinct(data.groups.map((group) => group.measure).filter(Boolean));
    const measured = (group) => (measures.length > 1 && group.measure ? ` ${group.measure}` : "");
    const percent = Math.round(100 * data.level);
    const columns = [
      { key: "algorithm", title: "algorithm", value: (g) => g.method, cell: (g) => g.algorithm },
      { key: "setting", title: "setting", class: "settings", hint: "settings that differ between runs of the algorithm", value: (g) => g.method,
        cell: (g) => { const changes = Object.entries(g.changes);
          return changes.length ? changes.map(([key, value]) => el("span", { class: "change" }, `${key} ${value}`)) : [el("span", { class: "quiet" }, "–")]; } },
      { key: "dataset", title: "dataset", class: "name", value: (g) => g.dataset, cell: (g) => g.dataset },
      { key: "seeds", title: "seeds", value: (g) => g.seeds.length, cell: (g) => seedsIn(g.seeds) + (g.diverged ? ` (${g.diverged} diverged)` : "") },
      ...(measures.length ? [{ key: "last", title: "last", number: true, hint: "at the last evaluation", value: (g) => g.last.mean, cell: (g) => estimate(g.last) + measured(g) }] : []),
      ...(data.groups.some((g) => g.sampled) ? [{ key: "sampled", title: "sampled", number: true, hint: "at the last evaluation, with sampled actions", value: (g) => g.sampled?.mean, cell: (g) => estimate(g.sampled) }] : []),
      ...(measures.length ? [{ key: "best", title: "best", number: true, hint: "at each run's best evaluation", value: (g) => g.best.mean, cell: (g) => estimate(g.best) + measured(g) }] : []),
      { key: "verdict", title: "critics", class: "verdicts", value: (g) => GRAVEST_FIRST.indexOf(g.verdict.level), cell: (g) => badge(g.verdict.level, g.verdict.title) },
      { key: "step", title: "steps", number: true, value: (g) => g.step, cell: (g) => (g.step < g.goal ? `${number(g.step)} of ${number(g.goal)}` : number(g.step)) },
      { key: "speed", title: speedOf(data.groups), number: true, value: (g) => g.speed, cell: (g) => number(g.speed, 3) },
      { key: "seconds", title: "time a run", number: true, value: (g) => g.seconds, cell: (g) => duration(g.seconds) },
    ];
    return [
      el("p", {}, "One line for each method and dataset; a click on a heading sorts. " + (measures.length ? `Results are ${measures.map((name) => NAMES[name] + "s").join(" or ")}, as means over seeds with ${percent}% bootstrap intervals. ` +
        "“Last” is the end of training; “best” is the highest evaluation, which can be chosen only with a simulator. " : "No policy was evaluated in a simulator: this page uses only the data and the critics. ") + "Marked settings differ between runs." +
        (data.groups.some((g) => g.sampled) ? " Policies act by their mode; “sampled” is the last evaluation with sampled actions." : "") +
        (data.groups.some((g) => g.diverged) ? " A diverged run counts as the worst possible score in “last”, in curves and in statistics; “best” is from before it diverged." : "")),
      sortableTable(columns, data.groups, "groups"),
    ];
  },
};

function seedsIn(seeds) {
  return seeds.length > 6 ? `${seeds.length} seeds` : seeds.map((seed) => seed ?? "?").join(", ");
}

const learning = {
  id: "learning",
  title: "Learning curves",
  build(data) {
    if (!data.learning.some((curves) => Object.keys(curves).length) && !metricNames(data).length) return null;
    const measures = Object.keys(NAMES).filter((name) => data.learning.some((curves) => curves[name]));
    const quantities = [...measures.map((value) => ({ value, text: NAMES[value] })), ...metricNames(data).map((value) => ({ value: `log:${value}`, text: `logged: ${value}` }))];
    const thinned = data.thinned.curves ? ` Logged curves are thinned to ${data.thinned.curves} points each.` : "";
    return [
      el("div", { class: "choices" }, taskChoice(data), choice("show", "quantity", quantities, () => learning.draw(data))),
      el("div", { class: "figures" },
        figure("curves", "While training", "Each line is the mean over a method's seeds at each evaluation, the band its interval; wide bands mean that seeds " +
          "disagree. Click an entry of the legend to hide or show a method. Logged metrics have one line per run." + thinned),
        evaluated(data) ? figure("episodes", "Every episode of the last evaluation", "A point is the return of one episode, over all seeds; the box holds the middle half. " +
          "Two clouds mean that the policy sometimes succeeds and sometimes fails outright, which a mean hides.") : null),
    ];
  },
  draw(data) {
    const task = memory.chosen.task, quantity = memory.chosen.quantity;
    const mine = data.groups.map((group, i) => ({ group, i })).filter(({ group }) => group.dataset === task);
    const crowded = mine.length > 12;
    const traces = quantity.startsWith("log:") ? loggedLines(data, task, quantity.slice(4))
      : mine.flatMap(({ group, i }) => { const curve = data.learning[i][quantity]; return curve ? lineWithBand(group.method, curve.step, curve, colourOf(data, group.method), { band: !crowded }) : []; });
    show("curves", traces, { x: axis(stepsOf(mine.map(({ group }) => group))), y: axis(NAMES[quantity] ?? quantity.slice(4)), height: 400, showlegend: mine.length > 1, uirevision: JSON.stringify([task, quantity]) });
    const boxes = mine.toReversed().map(({ group, i }) => {
      const runs = data.runs.filter((run) => run.group === i), hex = colourOf(data, group.method);
      return { type: "box", orientation: "h", x: runs.flatMap((run) => run.returns), name: folded(group.method), boxpoints: "all", jitter: 0.6, pointpos: 0,
        text: runs.flatMap((run) => run.returns.map(() => `seed ${run.seed ?? "?"}`)), hovertemplate: "return %{x:.4g}, %{text}<extra>%{fullData.name}</extra>",
        marker: { color: faint(hex, 0.55), size: 4 }, line: { color: hex, width: 1.2 }, fillcolor: faint(hex, 0.1) };
    }).filter((box) => box.x.length);
    if (evaluated(data)) show("episodes", boxes, { x: axis("return of an episode"), y: axis("", { type: "category" }), height: Math.max(400, 90 + 44 * boxes.length), showlegend: false, uirevision: task });
  },
};

// Whether any policy was run in a simulator.
function evaluated(data) {
  return data.groups.some((group) => group.measure);
}

function metricNames(data) {
  return distinct(data.runs.flatMap((run) => Object.keys(run.metrics))).filter((name) => name !== "step").sort();
}

function loggedLines(data, task, name) {
  const seen = new Set();
  return data.runs.filter((run) => run.dataset === task && run.metrics[name]).map((run) => {
    const method = data.groups[run.group].method, first = !seen.has(method);
    seen.add(method);
    return { type: "scatter", mode: "lines", x: run.metrics.step, y: run.metrics[name], name: plain(method), legendgroup: plain(method), showlegend: first,
      line: { color: faint(colourOf(data, method), 0.8), width: 1.4 }, text: plain(run.name), hovertemplate: "step %{x:,}: %{y:.4g}<extra>%{text}</extra>" };
  });
}

function taskChoice(data) {
  const tasks = distinct(data.groups.map((group) => group.dataset));
  const menu = choice("dataset", "task", tasks.map((value) => ({ value, text: value })), () => learning.draw(data));
  return tasks.length > 1 ? menu : null;
}

// Runs that learn in their task.
const online = {
  id: "online",
  title: "Learning in the task",
  build(data) {
    const runs = data.runs.filter((run) => run.online);
    if (!runs.length) return null;
    const menu = choice("look at", "online-run", runs.map((run) => ({ value: run.name, text: run.name })), () => online.draw(data));
    return [
      el("ul", { id: "online-results", class: "results" }),
      el("div", { class: "choices" }, runs.length > 1 ? menu : null),
      el("div", { class: "figures" },
        figure("online-curve", "Evaluated and acted", "Evaluations of the policy, and the episodes that it acted to learn from: the mean of the last 20. Acting explores, so it may do worse than the policy. " +
          "Where it is shaded, the guard was up: acting was clearly worse than the policy at the start, and the run was as pessimistic as its parent."),
        figure("online-explore", "Exploration", "The members' standard deviation at the actions taken, in the learner's reward units: how new they are to the critics. On the right axis its weight when an action is chosen " +
          "(below 0 avoids what is uncertain, above 0 seeks it) and the share of the parent's pessimism that is left.")),
      runs.some((run) => run.online.maps) ? el("div", { id: "online-maps" },
        el("h3", {}, "Where it went"),
        el("p", {}, "Dots are places that the run came to, in each quarter of its steps. Colours are the logged data (lighter is more, logarithmic): dots without colour behind them lie where the data has nothing. Star: goal, circle: start."),
        el("div", { class: "figures maps" }, [0, 1, 2, 3].map((i) => figure(`online-map-${i}`, "", "")))) : null,
    ];
  },
  draw(data) {
    fill(document.getElementById("online-results"), data.runs.filter((run) => run.online).map((run) => el("li", {}, el("b", {}, run.name), `: ${run.online.sentence}`)));
    const run = data.runs.find((each) => each.name === memory.chosen["online-run"]), found = run.online, uirevision = run.name;
    const steps = axis(stepsOf([run]), { rangemode: "tozero" });
    const guard = { type: "scatter", mode: "lines", name: "guard up", x: found.guarded.flatMap(([from, to]) => [from, from, to, to, null]), y: found.guarded.flatMap(() => [0, 1, 1, 0, null]),
      fill: "toself", fillcolor: faint(colour(3), 0.16), line: { width: 0.5, color: faint(colour(3), 0.3) }, yaxis: "y2", hoverinfo: "skip" };
    show("online-curve", [...(found.guarded.length ? [guard] : []),
      line("acted, mean of 20", found.acted.step, found.acted.value, colour(1), { trace: { mode: "lines", line: { color: colour(1), width: 1.4 } } }),
      line("evaluated", found.evaluations.step, found.evaluations.value, colour(0), { trace: { mode: "lines+markers" } })],
    { x: steps, y: axis(found.measure, found.measure === "success" ? { range: [-0.03, 1.03] } : {}), yaxis2: { overlaying: "y", side: "right", visible: false, range: [0, 1], fixedrange: true }, showlegend: true, uirevision });
    const logged = (name, key, hex, more) => (run.metrics[key] ? [line(name, run.metrics.step, run.metrics[key], hex, more)] : []);
    show("online-explore", [...logged("std", "online/std", colour(4)), ...logged("weight of the std", "online/beta", colour(1), { dash: "dot", trace: { yaxis: "y2" } }),
      ...logged("pessimism left", "online/pessimism", colour(3), { dash: "dash", trace: { yaxis: "y2" } })],
    { x: steps, y: axis("std of the members", { rangemode: "tozero" }), yaxis2: axis("weight, share", { overlaying: "y", side: "right", showgrid: false, tickmode: "auto" }), showlegend: true, uirevision });
    const place = document.getElementById("online-maps");
    const summary = data.datasets.find((each) => each.fingerprint === run.made_by.fingerprint)?.summary;
    if (!place) return;
    place.hidden = !found.maps || !summary?.coverage;
    if (place.hidden) return;
    found.maps.forEach((map, i) => {
      const figure = document.getElementById(`online-map-${i}`).parentElement;
      figure.querySelector("b").textContent = `Steps ${number(map.from)} to ${number(map.to)}`;
      coverage(`online-map-${i}`, summary, null, map);
    });
  },
};

const statistics = {
  id: "statistics",
  title: "Across seeds and tasks",
  build(data) {
    const found = data.statistics;
    if (!found) return null;
    const where = found.tasks.length > 1 ? `${found.tasks.length} tasks (${found.tasks.join(", ")})` : found.tasks[0];
    const fewer = found.compared.length < found.methods.length ? ` The best ${found.compared.length} methods of ${found.methods.length} are shown.` : "";
    return [
      el("p", {}, `Last scores on ${where}. Few seeds say little: look at the intervals before the order. They are stratified bootstraps, which draw seeds again within each task (Agarwal et al. 2021).`),
      el("div", { class: "figures" },
        figure("iqm", "Interquartile mean", "The mean of the middle half of all runs. One lucky or failed seed does not change it, as it would change a mean, and it is steadier than a median. Lines are intervals."),
        figure("profile", "Performance profile", "The share of runs that score more than the number below. A curve that is higher everywhere belongs to the better method; where curves cross, it depends on what you need." + fewer),
        found.compared.length > 1 ? figure("improvement", "Probability of improvement", "How likely a run of the method on the left beats one of the method below, on a task drawn at random. 0.5 is chance; values whose interval (shown on hover) contains 0.5 decide nothing." + fewer) : null),
    ];
  },
  draw(data) {
    const found = data.statistics;
    dots("iqm", found.methods, NAMES[found.measure]);
    const lines = found.compared.flatMap((name) => {
      const column = (i) => found.profiles[name].map((point) => point[i]);
      return lineWithBand(name, found.thresholds, { mean: column(0), low: column(1), high: column(2) }, colourOf(data, name), { band: found.compared.length < 7 });
    });
    show("profile", lines, { x: axis(NAMES[found.measure]), y: axis("share of runs above", { range: [-0.02, 1.02] }), height: 340, showlegend: found.compared.length > 1 });
    if (found.compared.length > 1) matrix("improvement", found.compared, found.improvement, "this method beats ...");
  },
};

// How `chary select` ranked the policies on held-out episodes.
const OUTCOMES = { better: "good", tied: "note", untrusted: "bad" };

const selection = {
  id: "selection",
  title: "Ranked without a simulator",
  build(data) {
    if (!data.selections.length) return null;
    const numeric = (key, title, hint, digits = 3) => ({ key, title, hint, number: true, value: (row) => row[key], cell: (row) => number(row[key], digits) });
    const columns = [
      { key: "name", title: "run", class: "name", value: (row) => row.name, cell: (row) => row.name },
      numeric("place", "place", "mean of the ranks by the lower bound of the gain and by the share outside the data"),
      numeric("best", "P(first)", "share of bootstrap draws in which it has the first place", 2),
      { key: "value", title: "FQE value", number: true, hint: "fitted Q-evaluation at held-out starts, with its 95% interval", value: (row) => row.value,
        cell: (row) => (row.value === null ? "–" : `${number(row.value, 4)} (${number(row.value_low, 4)} to ${number(row.value_high, 4)})`) },
      numeric("bound", "gain, low", "lower bound of what it gains on the data's own actions"),
      numeric("outside", "outside data", "share of held-out states in which its action is outside the data", 2),
      numeric("action_error", "action error", "mean squared distance from held-out actions"),
      numeric("td_error", "TD error", "of its own critics, in deviations of their values", 2),
    ];
    return data.selections.flatMap((found, i) => [
      el("p", {}, badge(OUTCOMES[found.outcome] ?? "note", found.outcome), " ", found.sentence),
      ...found.reasons.slice(1).map((reason) => el("p", {}, reason)),
      el("p", { class: "quiet" }, `On ${several(found.episodes, "held-out episode")} of ${found.folder}. ` + (found.left_out.length ? `Left out: ${found.left_out.join(", ")}. ` : "") +
        (found.tried ? `After ${several(found.tried.episodes, "episode")} in the simulator ${found.tried.best} is the best with probability ${number(found.tried.probability, 2)}.` : "")),
      sortableTable(columns, found.rows, `selection-${i}`),
    ]);
  },
};

// An episode in pictures, where one was drawn: `chary eval RUN --video RUN/strip.png`.
const strip = {
  id: "strips",
  title: "An episode in pictures",
  build(data) {
    if (!data.strips?.length) return null;
    return data.strips.map((drawn) => el("figure", { class: "strip" }, el("figcaption", {}, drawn.run),
      el("img", { src: `data:image/png;base64,${drawn.picture}`, alt: `An episode of ${drawn.run}, from left to right` })));
  },
};

// What it takes to choose among the policies of a method, or of an algorithm in all its settings.
const VIEWS = { method: "the runs of one setting", algorithm: "all runs of an algorithm" };

const budget = {
  id: "budget",
  title: "Choosing a policy",
  build(data) {
    const found = data.budget;
    if (!found) return null;
    const omitted = found.left_out.length ? el("p", { class: "quiet" }, found.left_out.join(" ")) : null;
    if (!found.pools.length) return [omitted];
    const again = () => budget.draw(data);
    const tasks = distinct(found.pools.map((pool) => pool.dataset)).map((value) => ({ value, text: value }));
    // Two views are offered only where they differ.
    const views = Object.keys(VIEWS).filter((view) => found.pools.some((pool) => pool.views.includes(view)));
    const differ = found.pools.some((pool) => pool.views.length < views.length);
    const menus = [choice("dataset", "budget-task", tasks, again), choice("policies", "budget-view", views.map((value) => ({ value, text: VIEWS[value] })), again)];
    const shown = [tasks.length > 1, views.length > 1 && differ].map((several, i) => (several ? menus[i] : null));
    return [
      el("p", {}, "Several policies are trained, but only real episodes show which of them is good. Each run gives one policy, its last. The true score of a policy is the mean of its recorded episodes. " +
        `Bands are ${Math.round(100 * data.level)}% intervals, from drawing the runs again.`),
      el("div", { class: "choices" }, shown),
      el("div", { class: "figures" },
        found.pools.some((pool) => pool.bandit) ? figure("bandit", "What a budget of episodes buys", `How good is the policy that you end up with, if you try up to ${found.policies} policies for so many episodes in all and then keep the best so far? ` +
          "(UCB bandit, Jackson et al. 2025; at 0 you pick one blindly.)") : null,
        figure("maximum", "What more policies buy", "How good is the best of so many policies, if you could measure each one exactly? (Expected online performance, Kurenkov and Kolesnikov 2022.)")),
      omitted,
    ];
  },
  draw(data) {
    if (!data.budget.pools.length) return;
    const task = memory.chosen["budget-task"], view = memory.chosen["budget-view"], uirevision = JSON.stringify([task, view]);
    const pools = data.budget.pools.filter((pool) => pool.dataset === task && pool.views.includes(view));
    // An algorithm's runs together have the colour of its first method.
    const hex = (pool) => colourOf(data, data.methods.includes(pool.method) ? pool.method : data.groups.find((group) => group.algorithm === pool.algorithm).method);
    const lines = (key, x, hover) => pools.filter((pool) => pool[key]).flatMap((pool) =>
      lineWithBand(pool.method, pool[key][x], pool[key], hex(pool), { band: pools.length < 7, hover: hover(pool) }));
    const layout = { height: 360, showlegend: pools.length > 1, uirevision };
    const measure = NAMES[pools[0]?.measure] ?? "score";
    if (document.getElementById("bandit")) show("bandit", lines("bandit", "episodes", (pool) => `after %{x} episodes, of ${pool.bandit.policies} policies`), { x: axis("episodes tried"), y: axis(`${measure} of the choice`), ...layout });
    show("maximum", lines("maximum", "policies", (pool) => `best of %{x} of ${pool.policies} policies`), { x: axis("policies measured", { dtick: pools.every((pool) => pool.policies < 13) ? 1 : undefined }), y: axis(`${measure} of the best`), ...layout });
  },
};

const datasets = {
  id: "data",
  title: "Data",
  build(data) {
    return data.datasets.flatMap((dataset, i) => {
      const found = dataset.summary;
      const sizes = `${number(dataset.transitions)} transitions, ${dataset.observation_size ?? "?"} observations, ${dataset.action_size ?? "?"} actions`;
      const title = el("h3", {}, dataset.name);
      if (!found) return [title, el("p", {}, `${sizes}. There is no summary of the data: these runs began before chary stored one, or it cannot be read.`)];
      const ends = `${several(found.episodes, "episode")}, of which ${number(found.terminals)} were ended by the task and ${number(found.timeouts)} were cut off`;
      return [
        title,
        el("p", {}, `${sizes}; ${ends}. Mean return ${number(found.returns.mean)} (${number(found.returns.min)} to ${number(found.returns.max)}).`),
        el("div", { class: "figures" },
          figure(`returns-${i}`, "Returns", "The return of every logged episode: the performance of the behaviour that made the data."),
          figure(`lengths-${i}`, "Lengths", "How many steps episodes took."),
          found.coverage ? figure(`coverage-${i}`, "Coverage", "Where the data is, by the first two observations, on a logarithmic scale. In the empty parts critics can only guess.") : null),
        el("h3", {}, "What the doctor found"),
        found.findings.length
          ? el("div", {}, found.findings.map((each) => el("div", { class: `verdict ${each.severity === "error" ? "bad" : each.severity}` }, el("b", {}, each.rule), el("span", {}, `${each.message} ${each.fix}`))))
          : el("p", {}, `No problems in the ${number(found.examined)} transitions that were examined.`),
      ];
    });
  },
  draw(data) {
    data.datasets.forEach((dataset, i) => {
      const found = dataset.summary;
      if (!found) return;
      bars(`returns-${i}`, found.returns, "return of an episode", "episodes");
      bars(`lengths-${i}`, found.lengths, "length of an episode (steps)", "episodes");
      if (found.coverage) coverage(`coverage-${i}`, found);
    });
  },
};

function coverage(id, found, paths, places) {
  const { extent, counts } = found.coverage;
  const [left, right, bottom, top] = extent;
  const steps = (low, high, count) => counts.map((_, i) => low + (i + 0.5) * (high - low) / count);
  const z = counts.map((row) => row.map((count) => (count ? Math.log10(count) : null)));
  const heat = { x: steps(left, right, counts.length), y: steps(bottom, top, counts.length), z, extent, colorscale: "Viridis", showscale: false };
  if (found.maze || paths) return mazeMap(id, heat, found.maze, paths, "log10 of transitions", places);
  return show(id, [{ type: "heatmap", ...heat, hovertemplate: "%{x:.3g}, %{y:.3g}: 10^%{z:.2f} transitions<extra></extra>" }],
    { x: axis("observation 0"), y: axis("observation 1"), height: 300 });
}

const reproduction = {
  id: "reproduction",
  title: "Reproduction",
  build(data) {
    const machines = distinct(data.runs.map((run) => JSON.stringify([run.made_by.chary, run.made_by.versions, run.made_by.layout])));
    const which = (key) => data.runs.filter((run) => JSON.stringify([run.made_by.chary, run.made_by.versions, run.made_by.layout]) === key);
    const columns = [
      { key: "name", title: "run", class: "name", value: (r) => r.name, cell: (r) => r.name },
      { key: "command", title: "command", value: (r) => r.made_by.command, cell: (r) => el("code", {}, r.made_by.command || "–") },
      { key: "data", title: "data fingerprint", value: (r) => r.made_by.fingerprint, cell: (r) => el("code", { title: r.made_by.fingerprint }, r.made_by.fingerprint.slice(0, 12)) },
    ];
    return [
      el("p", {}, "With the same versions on the same kind of machine, these commands give the same numbers to the last bit. The fingerprint is the SHA-256 of every number in the data."),
      sortableTable(columns, data.runs, "commands"),
      ...machines.flatMap((key) => {
        const [chary, versions, layout] = JSON.parse(key);
        const runs = which(key);
        const facts = { chary, ...versions, ...layout };
        return [el("h3", {}, machines.length > 1 ? `Versions and hardware of ${several(runs.length, "run")}: ${runs.slice(0, 4).map((run) => run.name).join(", ")}${runs.length > 4 ? ", ..." : ""}` : "Versions and hardware"),
          el("dl", {}, Object.entries(facts).map(([key, value]) => [el("dt", {}, key), el("dd", {}, String(value))]))];
      }),
    ];
  },
};

const warnings = {
  id: "warnings",
  title: "Warnings",
  build(data) {
    if (!data.warnings.length) return null;
    return [
      el("p", {}, "These files could not be used. The page was made without them."),
      el("ul", {}, data.warnings.map((each) => el("li", {}, each.run ? `${each.run}: ${each.message}` : each.message))),
    ];
  },
};

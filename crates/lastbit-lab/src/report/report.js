"use strict";
// Unpacks plotly.js, draws every chart in turn, and says on <html> when it is done:
// data-ready="true" and data-charts-drawn="N".

const DASHES = { solid: "", dash: "7 4", dot: "2 3", longdash: "11 4", dashdot: "7 3 2 3", "12px,7px": "10 5" };
const LEVELS = ["longdash", "dashdot", "dot"];
const phone = matchMedia("(pointer: coarse)").matches;

async function loadPlotly() {
  if (!("DecompressionStream" in window)) {
    throw new Error("This browser is too old to unpack the charts. The figures folder of the record holds them as SVG and PNG.");
  }
  const packed = atob(document.getElementById("plotly").textContent.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

// On a log axis what is not positive is a gap; plotly would draw it as a fall to the bottom.
function pointsOf(data, trace) {
  const column = (axis) => {
    const values = data.columns[trace[axis]];
    return data[axis].log ? values.map((value) => (value > 0 ? value : null)) : values;
  };
  return { x: column("x"), y: column("y") };
}

// Plotly reads markup in names; ours have none.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    "font.color": colour("--ink"),
    "hoverlabel.bgcolor": colour("--card"),
    "hoverlabel.font.color": colour("--ink"),
    "modebar.bgcolor": "rgba(0,0,0,0)",
    "modebar.color": colour("--quiet"),
    "modebar.activecolor": colour("--link"),
  };
  for (const axis of ["xaxis", "yaxis"]) {
    layout[`${axis}.gridcolor`] = colour("--grid");
    layout[`${axis}.zerolinecolor`] = colour("--line");
    layout[`${axis}.linecolor`] = layout[`${axis}.tickcolor`] = colour("--quiet");
  }
  return { layout, quiet: colour("--quiet"), ink: colour("--ink") };
}

function axisOf(axis) {
  return {
    title: { text: plain(axis.label), standoff: 10 },
    type: axis.log ? "log" : "linear",
    exponentformat: "power", minexponent: 4, hoverformat: ".6~g",
    showline: true, mirror: true, ticks: "outside", ticklen: 4, automargin: true, zeroline: false,
  };
}

function tracesOf(data, quiet) {
  const curves = data.traces.map((trace) => ({
    name: plain(trace.label), ...pointsOf(data, trace),
    mode: trace.marks ? "lines+markers" : "lines", connectgaps: false,
    line: { color: trace.colour, dash: trace.dash, width: trace.fitted ? 6 : 2, simplify: false },
    // A fitted line is broad and pale, so that it shows around a curve that it meets.
    opacity: trace.fitted ? 0.45 : 1, marker: { color: trace.colour, size: 6 },
  }));
  // A level goes from the first to the last x; the least positive one keeps it on a log axis.
  const xs = data.traces.flatMap((trace) => data.columns[trace.x]).filter((x) => x !== null);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const ends = [least(xs), least(xs.filter((x) => x > 0)), -least(xs.map((x) => -x))];
  const x = ends.filter(Number.isFinite).sort((a, b) => a - b);
  const levels = data.levels.map((level, k) => ({
    name: plain(level.label), x, y: x.map(() => level.y), mode: "lines", level: true,
    line: { color: quiet, dash: LEVELS[k % LEVELS.length], width: 1.5 },
  }));
  return [...curves, ...levels];
}

function button(text, pressed, parent) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(text);
  made.setAttribute("aria-pressed", pressed);
  parent.append(made);
  return made;
}

function sample(line, colour, { marks, fitted } = {}) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["width", 26], ["height", 10], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
  const draw = (tag, attributes) => {
    const shape = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  };
  draw("line", { x1: 0, x2: 26, y1: 5, y2: 5, style: `stroke: ${colour}`, "stroke-width": fitted ? 6 : 2.5, opacity: fitted ? 0.45 : 1, "stroke-dasharray": DASHES[line.dash] });
  if (marks) draw("circle", { cx: 13, cy: 5, r: 3.5, fill: colour });
  return svg;
}

// Our own legend: it wraps on a phone and can be reached from the keyboard.
function makeLegend(chart, plot, data, traces) {
  const legend = chart.querySelector(".legend");
  const labels = [...data.traces.map((t) => t.label), ...data.levels.map((l) => `${l.label} (${l.text})`)];
  const buttons = labels.map((label, k) => {
    const colour = data.traces[k]?.colour ?? "var(--quiet)";
    const made = button(sample(traces[k].line, colour, data.traces[k]), true, legend);
    made.append(label);
    made.title = "Hide or show; twice: show this one alone";
    return made;
  });
  const show = (visible) => {
    buttons.forEach((made, k) => made.setAttribute("aria-pressed", visible[k]));
    Plotly.restyle(plot, { visible });
  };
  const shown = () => buttons.map((made) => made.getAttribute("aria-pressed") === "true");
  buttons.forEach((made, k) => {
    made.addEventListener("click", () => show(shown().map((on, j) => (j === k ? !on : on))));
    made.addEventListener("dblclick", () => {
      const alone = shown().every((on, j) => on === (j === k));
      show(buttons.map((_, j) => alone || j === k));
    });
  });
  const axes = document.createElement("span");
  axes.className = "axes";
  legend.append(axes);
  for (const axis of ["x", "y"]) {
    const made = button(`log ${axis}`, data[axis].log, axes);
    made.addEventListener("click", () => {
      const log = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", log);
      data[axis].log = log;
      const points = data.traces.map((trace) => pointsOf(data, trace));
      const change = { x: points.map((p) => p.x), y: points.map((p) => p.y) };
      const layout = { [`${axis}axis.type`]: log ? "log" : "linear", [`${axis}axis.autorange`]: true };
      Plotly.update(plot, change, layout, [...points.keys()]);
    });
  }
}

// Plus and minus zoom, arrows move, 0 shows all; rows of strips stay.
function listenToKeys(plot) {
  const axes = ["xaxis", "yaxis"].filter((axis) => !plot._fullLayout[axis].fixedrange);
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowDown: [0, -0.1], ArrowUp: [0, 0.1] };
    const grow = { "+": -0.15, "=": -0.15, "-": 0.2 }[event.key];
    if (event.target !== plot || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "0") {
      Plotly.relayout(plot, Object.fromEntries(axes.map((axis) => [`${axis}.autorange`, true])));
    } else if (grow !== undefined || moves[event.key]) {
      const change = {};
      axes.forEach((axis, k) => {
        const [low, high] = plot._fullLayout[axis].range;
        const shift = (moves[event.key]?.[k] ?? 0) * (high - low);
        const widen = (grow ?? 0) * (high - low);
        change[`${axis}.range`] = [low + shift - widen, high + shift + widen];
      });
      Plotly.relayout(plot, change);
    } else {
      return;
    }
    event.preventDefault();
  });
}

async function draw(chart) {
  const plot = chart.querySelector(".plot");
  const data = JSON.parse(chart.querySelector("script").textContent);
  const look = theme();
  const isStrips = data.kind === "strips";
  const traces = isStrips ? stripTraces(data, look.ink) : tracesOf(data, look.quiet);
  const layout = {
    xaxis: axisOf(data.x), yaxis: isStrips ? undefined : axisOf(data.y), showlegend: false, hovermode: "closest",
    margin: { l: 8, r: 12, t: 30, b: 8 }, hoverlabel: { namelength: -1 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13 },
    // On a phone a finger scrolls the page; the bar of buttons zooms.
    dragmode: phone ? false : "zoom",
    ...(isStrips ? stripLayout(data, plot.clientWidth) : {}),
  };
  const config = {
    responsive: true, displaylogo: false, displayModeBar: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  };
  await Plotly.newPlot(plot, traces, layout, config);
  await Plotly.relayout(plot, look.layout);
  if (!isStrips) makeLegend(chart, plot, data, traces);
  listenToKeys(plot);
}

function recolour() {
  const look = theme();
  for (const plot of document.querySelectorAll(".plot.js-plotly-plot")) {
    Plotly.relayout(plot, look.layout);
    const levels = plot.data.flatMap((trace, k) => (trace.level ? [k] : []));
    const inks = plot.data.flatMap((trace, k) => (trace.ink ? [k] : []));
    if (inks.length) Plotly.restyle(plot, { "marker.color": look.ink, "marker.line.color": look.ink }, inks);
    if (levels.length) Plotly.restyle(plot, { "line.color": look.quiet }, levels);
  }
}

function excuse(chart, error) {
  const message = document.createElement("p");
  message.className = "message";
  message.textContent = `The chart could not be drawn: ${error.message}`;
  chart.querySelector(".plot").replaceChildren(message);
}

async function drawAll() {
  const charts = [...document.querySelectorAll(".chart")];
  let drawn = 0;
  let failure = null;
  if (charts.length) await loadPlotly().catch((error) => { failure = error; });
  for (const chart of charts) {
    try {
      if (failure) throw failure;
      await draw(chart);
      drawn += 1;
    } catch (error) {
      console.error(error);
      excuse(chart, error);
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  Object.assign(document.documentElement.dataset, { chartsDrawn: drawn, ready: true });
}

drawAll();

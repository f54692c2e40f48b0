"use strict";
// Strips: a row of dots for each name, on a bar and a tick for the mean.

// A text in lines of so many letters, as far as its words allow; an equation stays whole.
function inLines(text, letters) {
  const lines = [""];
  for (const word of text.replaceAll(" = ", "\u00a0=\u00a0").split(" ")) {
    const joined = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && joined.length > letters) lines.push(word);
    else lines[lines.length - 1] = joined;
  }
  return lines.map(plain).join("<br>");
}

function stripTraces(data, ink) {
  const rows = data.rows.map((row, k) => ({
    name: plain(row.label), x: row.x, y: row.lift.map((lift) => k - lift), text: row.text.map(plain),
    mode: "markers", hovertemplate: "%{text}<extra>%{fullData.name}</extra>",
    marker: { color: row.colour, size: phone ? 7 : 9 },
  }));
  const means = data.rows.map((row, k) => ({ row, k })).filter(({ row }) => row.mean !== null);
  const ticks = {
    x: means.map(({ row }) => row.mean), y: means.map(({ k }) => k), mode: "markers", ink: true,
    text: means.map(({ row }) => plain(`${row.label}: ${row.summary}`)), hovertemplate: "%{text}<extra></extra>",
    marker: { symbol: "line-ns-open", size: 34, color: ink, line: { width: 2.5, color: ink } },
  };
  return [ticks, ...rows];
}

function stripLayout(data, width) {
  const bars = data.rows.flatMap((row, k) => (row.bar ? [{
    type: "rect", layer: "below", x0: row.bar[0], x1: row.bar[1], y0: k - 0.33, y1: k + 0.33,
    fillcolor: row.colour.replace("rgb(", "rgba(").replace(")", ",0.25)"), line: { width: 0 },
  }, ...(row.given ? row.bar : []).map((end) => ({
    type: "line", layer: "below", x0: end, x1: end, y0: k - 0.33, y1: k + 0.33, line: { width: 1.5, color: row.colour },
  }))] : []));
  // Names take about a third of the width, the name of the axis what they leave.
  const letters = Math.max(13, Math.min(30, Math.floor(width / 23)));
  const nameOf = (row) => `${inLines(row.label, letters)}<br>${inLines(row.summary.replace(", ", ",\u00a0"), letters)}`;
  const xaxis = axisOf(data.x);
  xaxis.title.text = inLines(data.x.label, Math.floor((width - 7 * letters) / 8));
  return {
    shapes: bars, xaxis,
    yaxis: {
      tickvals: data.rows.map((_, k) => k), ticktext: data.rows.map(nameOf),
      range: [data.rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false,
      showline: true, mirror: true, automargin: true,
    },
  };
}

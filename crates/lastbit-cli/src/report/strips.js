"use strict";
// Strips: a row of dots for each name, on a bar and a tick for the mean.

// A name in lines that leave room for the dots.
function nameOf(row, letters) {
  const lines = [""];
  for (const word of row.label.split(" ")) {
    const joined = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && joined.length > letters) lines.push(word);
    else lines[lines.length - 1] = joined;
  }
  return [...lines, row.summary].map(plain).join("<br>");
}

function stripTraces(data, ink) {
  const rows = data.rows.map((row, k) => ({
    name: plain(row.label), x: row.x, y: row.lift.map((lift) => k - lift), text: row.text.map(plain),
    mode: "markers", hovertemplate: "%{text}<extra>%{fullData.name}</extra>",
    marker: { color: row.colour, size: 9 },
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
  const letters = Math.max(10, Math.min(26, Math.floor(width / 28)));
  return {
    shapes: bars,
    yaxis: {
      tickvals: data.rows.map((_, k) => k), ticktext: data.rows.map((row) => nameOf(row, letters)),
      range: [data.rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false,
      showline: true, mirror: true, automargin: true,
    },
  };
}

"use strict";
// Draws the plots that the page describes, in the colours of its theme, and again when the theme,
// the width or the reader's choice of a view changes.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const plots = JSON.parse(document.getElementById("plots").textContent);
  document.getElementById("unscripted").remove();
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const narrow = () => root.clientWidth < 640;

  // A colour of the style sheet, such as "var(--ink)", as the theme of the moment has it.
  function colour(name) {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.style.color = name;
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  // A line's colour, nearer to white by a third: on a dark background it stands out as well.
  function lighter(hex) {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgb(${parts.map((part) => Math.round(part + (255 - part) / 3)).join(",")})`;
  }

  function inColours(value, known) {
    if (Array.isArray(value)) return value.map((one) => inColours(one, known));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, inColours(v, known)]));
    }
    if (typeof value !== "string") return value;
    if (value.startsWith("var(--")) return (known[value] ??= colour(value));
    return isDark() && /^#[0-9a-f]{6}$/i.test(value) ? lighter(value) : value;
  }

  // Words on lines short enough to leave room for what is drawn.
  function wrapped(words, most) {
    const lines = [""];
    for (const word of words.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length > most && lines.at(-1)) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines.join("<br>");
  }

  // Words cut short, an entity such as "&lt;" counting as the one sign that it stands for.
  function short(words, most) {
    const signs = words.match(/&\w+;|./gsu) ?? [];
    return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : words;
  }

  // An axis of names: cut short, thinned where there are many, upright where they would overlap.
  function ofNames(given, names, width) {
    if (given.type === "category") {
      const step = Math.ceil(names.length / (narrow() ? 13 : 30));
      names = names.filter((_, index) => index % step === 0);
      given = { ...given, tickvals: names, ticktext: names };
    }
    if (!given.ticktext) return given;
    const ticktext = given.ticktext.map((name) => short(name, narrow() ? 9 : 22));
    const longest = Math.max(...ticktext.map((name) => name.length));
    const upright = longest * 8 > width / ticktext.length;
    return { ...given, ticktext, ...(upright ? { tickangle: -90 } : {}) };
  }

  // The last value and name of each line beside its end, those that would overlap moved apart.
  function endLabels(ends, range, height) {
    const pixel = (y) => ((range[1] - y) / (range[1] - range[0])) * height;
    const groups = [];
    for (const end of [...ends].sort((a, b) => b.y - a.y)) {
      const text = wrapped(end.text, 34);
      const room = 3 + 15 * text.split("<br>").length;
      groups.push({ ends: [{ ...end, text, room }], room, middle: pixel(end.y) });
      for (let last = groups.length - 1; last > 0; last -= 1) {
        const [above, below] = [groups[last - 1], groups[last]];
        if (below.middle - above.middle >= (above.room + below.room) / 2) break;
        const room = above.room + below.room;
        const middle = (above.middle * above.room + below.middle * below.room) / room;
        groups.splice(last - 1, 2, { ends: [...above.ends, ...below.ends], room, middle });
      }
    }
    return groups.flatMap((group) => {
      let at = Math.max(0, group.middle - group.room / 2);
      return group.ends.map((end) => {
        at += end.room;
        return { x: end.x, y: end.y, text: end.text, ax: 34, ay: at - end.room / 2 - pixel(end.y),
          xanchor: "left", yanchor: "middle", align: "left", showarrow: true, arrowhead: 0,
          arrowwidth: 1, arrowcolor: end.color, standoff: 5, font: { size: 12 } };
      });
    });
  }

  const axis = {
    gridcolor: "var(--rule)", linecolor: "var(--muted)", tickcolor: "var(--muted)",
    zerolinecolor: "var(--rule)", automargin: true, fixedrange: true,
  };
  const letters = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const frame = {
    paper_bgcolor: "var(--page)", plot_bgcolor: "var(--page)", dragmode: false,
    font: { color: "var(--ink)", family: letters },
    hoverlabel: { bgcolor: "var(--shade)", bordercolor: "var(--muted)",
      font: { color: "var(--ink)", family: letters }, align: "left", namelength: -1 },
    margin: { l: 12, r: 12, t: 12, b: 12 },
  };

  function layoutOf(view, width) {
    const layout = { ...frame, ...view.layout, autosize: true };
    layout.font = { ...frame.font, size: narrow() ? 11 : 13 };
    layout.xaxis = { ...axis, ...ofNames(view.layout.xaxis, view.traces[0].x, width - 150) };
    layout.yaxis = { ...axis, ...ofNames(view.layout.yaxis, view.traces[0].y, Infinity) };
    for (const one of [layout.xaxis, layout.yaxis]) {
      if (one.title) one.title = { ...one.title, standoff: 14 };  // from names, however long
    }
    const lines = view.traces.filter((trace) => trace.showlegend !== false).length;
    layout.legend = narrow()
      ? { orientation: "h", x: 0, y: -0.2, yanchor: "top" }
      : { x: 1.02, y: 1, xanchor: "left", yanchor: "top" };
    if (view.height_per_width) {
      layout.height = Math.round(Math.min(width, 760) * view.height_per_width) + 60;
    } else if (view.rows) {
      layout.height = 90 + view.rows * (narrow() ? 28 : view.rows > 20 ? 20 : 38);
    } else {
      layout.height = narrow() ? 330 + 19 * lines : Math.max(400, 90 + 22 * lines);
    }
    if (view.ends?.length && !narrow()) {
      const values = view.traces.flatMap((trace) => trace.y);
      const range = view.layout.yaxis.range ?? [0, Math.max(...values) * 1.08];
      layout.showlegend = false;
      layout.yaxis.range = range;
      layout.margin = { ...frame.margin, b: 48, r: 240 };
      layout.annotations = endLabels(view.ends, range, layout.height - 60);
    }
    return layout;
  }

  function draw(place) {
    const views = plots[Number(place.dataset.plot)];
    const select = place.closest("figure").querySelector("select");
    const view = views[select ? select.selectedIndex : 0];
    const known = {};
    const layout = inColours(layoutOf(view, place.clientWidth), known);
    const traces = inColours(view.traces, known);
    // On a phone the plot itself needs the room that a scale of colours would take.
    if (narrow()) traces.forEach((trace) => (trace.showscale = false));
    traces.forEach((trace) => (trace.name &&= wrapped(trace.name, narrow() ? 38 : 30)));
    place.setAttribute("aria-label", view.alt);
    Plotly.react(place, traces, layout,
      { displayModeBar: false, responsive: true, scrollZoom: false });
  }

  const places = [...document.querySelectorAll(".plot")];
  const drawAll = () => places.forEach(draw);

  const button = document.getElementById("theme");
  function named() {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    drawAll();
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    named();
  });
  dark.addEventListener("change", named);
  for (const place of places) {
    place.closest("figure").querySelector("select")?.addEventListener("change", () => draw(place));
  }
  let wasNarrow = narrow();
  addEventListener("resize", () => {
    if (narrow() !== wasNarrow) drawAll();
    wasNarrow = narrow();
  });
  named();
})();

// What is shown: answers, the hash, what happened. Everything that comes from the model or from a
// person is put into the page as text, never as markup.

export const at = (id) => document.getElementById(id);
const past = []; // files that were there, and why
const shown = { rates: null, soon: null, problem: null };

export function make(kind, name = "", text = "") {
  const one = document.createElement(kind);
  if (name) one.className = name;
  if (text) one.textContent = text;
  return one;
}

export function say(id, text, kind) {
  at(id).textContent = text;
  if (kind) at(id).dataset.kind = kind;
}

export function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = false;
  clearTimeout(shown.problem);
  shown.problem = setTimeout(() => { at("problem").hidden = true; }, 8000);
}

const WORDS = {
  start: () => "When you came",
  learn: (names) => `Learnt ${names}`,
  unlearn: (names) => `Took back ${names}`,
  forget: (names) => `Forgot ${names}`,
  merge: () => "Merged another model",
  file: () => "Changed by another program",
};

export function happened(about) {
  const known = past.findIndex((one) => one.sha256 === about.sha256);
  const names = about.classes.map((one) => `${one.class}`).join(", ");
  const words = (WORDS[about.what] || WORDS.file)(names);
  past.push({ sha256: about.sha256, words, time: about.time });
  const row = make("li");
  const when = new Date(about.time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  row.append(swatches(about.sha256, 6), make("span", "", words), make("time", "quiet", when));
  at("history").prepend(row);
  while (at("history").children.length > 50) at("history").lastChild.remove();
  const same = at("same");
  same.hidden = known < 0;
  if (known >= 0) {
    row.classList.add("returned");
    same.textContent = `The same file as “${past[known].words.toLowerCase()}”, byte for byte.`;
    at("hash").classList.remove("flash");
    void at("hash").offsetWidth; // so that it begins again
    at("hash").classList.add("flash");
  }
}

export function showHash(sha256) {
  at("hash").textContent = sha256.match(/.{8}/g).join(" ");
  at("swatches").replaceWith(Object.assign(swatches(sha256, 16), { id: "swatches" }));
}

// Colours of a hash: people see at once whether two are equal.
function swatches(sha256, count) {
  const row = make("span", "swatches");
  row.setAttribute("aria-hidden", "true");
  for (let i = 0; i < count; i++) {
    const hue = parseInt(sha256.slice(4 * i, 4 * i + 3), 16) % 360;
    const light = 45 + (parseInt(sha256[4 * i + 3], 16) % 4) * 8;
    const one = make("i");
    one.style.background = `hsl(${hue} 60% ${light}%)`;
    row.append(one);
  }
  return row;
}

export function showRates(rates, changed) {
  const plot = at("rates"), said = at("rate");
  plot.parentElement.hidden = !rates || !rates.length;
  if (!rates || !rates.length || !changed) return;
  const before = shown.rates;
  const most = Math.max(...rates, ...(before || [])), least = Math.min(...rates, ...(before || []));
  const line = (values, name) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    shape.setAttribute("class", name);
    shape.setAttribute("points", values.map((value, i) =>
      `${4 + 232 * i / Math.max(1, values.length - 1)},${60 - 56 * (value - least) / Math.max(most - least, 1e-9)}`).join(" "));
    return shape;
  };
  plot.replaceChildren(...(before ? [line(before, "before")] : []), line(rates, "now"));
  const last = rates[rates.length - 1];
  const moved = before ? last - before[before.length - 1] : 0;
  said.textContent = `ΔR grows from ${rates[0].toFixed(2)} to ${last.toFixed(2)} over ${rates.length} layers`
    + (before && Math.abs(moved) >= 0.005 ? ` (${moved > 0 ? "+" : "−"}${Math.abs(moved).toFixed(2)} by the last change).` : ".");
  shown.rates = rates;
}

export function showAnswer(found) {
  const answer = found && found.answers[0];
  const novel = answer && found.threshold !== null && answer.novelty > found.threshold;
  at("verdict").textContent = answer ? String(answer.label) : "–";
  at("certainty").textContent = answer ? share(answer.top[0].probability) : "";
  at("verdict").classList.toggle("novel", Boolean(novel));
  at("bars").replaceChildren(...(answer ? answer.top : []).map((one, place) => {
    const row = make("li", place ? "" : "first"), bar = make("span", "bar"), fill = make("i");
    fill.style.width = `${100 * one.probability}%`;
    bar.append(fill);
    row.append(make("span", "bar-name", String(one.label)), bar, make("span", "bar-share", share(one.probability)));
    return row;
  }));
  const measured = answer && answer.novelty !== null && found.threshold !== null;
  const full = measured ? Math.max(2 * found.threshold, answer.novelty) : 1;
  at("novelty-fill").style.width = measured ? `${100 * answer.novelty / full}%` : "0";
  at("novelty-fill").classList.toggle("novel", Boolean(novel));
  at("novelty-mark").style.left = measured ? `${100 * found.threshold / full}%` : "50%";
  at("novelty").textContent = !answer ? "Novelty: nothing to measure yet."
    : !measured ? "This model does not measure novelty."
      : `Novelty ${answer.novelty.toFixed(2)}: ${novel ? "unlike all that it has seen" : "like what it knows"} (the line is at ${found.threshold.toFixed(2)}).`;
  clearTimeout(shown.soon);
  shown.soon = setTimeout(() => {
    at("said").textContent = answer
      ? `${answer.label}, ${share(answer.top[0].probability)}${novel ? ", unlike all that it has seen" : ""}` : "";
  }, 700);
}

const share = (p) => (p >= 0.9995 ? "100%" : p < 0.0005 ? "0%" : `${(100 * p).toFixed(p > 0.1 ? 0 : 1)}%`);

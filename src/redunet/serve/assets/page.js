// The page that teaches a model by hand. Everything that comes from the model or from a person is
// put into the page as text, never as markup.
import { grid, inkOf, levels, variants } from "./draw.js";

const COPIES = 24; // samples that one drawing is taught as
const SHOWN = 10; // classes with bars
const at = (id) => document.getElementById(id);
const pad = at("pad"), pen = pad.getContext("2d");
const state = {
  model: null, way: null, strokes: [], files: [], taught: [], history: [], rates: null,
  asking: false, again: false, last: null, stream: null, cursor: [0.5, 0.5], down: false,
};

// ---- the server -----------------------------------------------------------------------------

let token = sessionStorage.getItem("token") || "";
if (location.hash.startsWith("#token=")) {
  token = location.hash.slice(7);
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
}

const headers = (more = {}) => (token ? { ...more, Authorization: `Bearer ${token}` } : more);

async function call(path, body, more = {}) {
  const given = { method: body === undefined ? "GET" : "POST", headers: headers(more) };
  if (body instanceof FormData) given.body = body;
  else if (body !== undefined) {
    given.body = JSON.stringify(body);
    given.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, given);
  const found = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (!answer.ok) {
    if (answer.status === 401) { token = ""; sessionStorage.removeItem("token"); lock(); }
    throw new Error(found.error);
  }
  return found;
}

// A change that may be sent again after a lost connection, and counts once.
async function change(path, body) {
  const key = { "Idempotency-Key": crypto.randomUUID ? crypto.randomUUID() : `${Math.random()}` };
  for (let trial = 0; ; trial++) {
    try {
      return await call(`${path}?wait=true`, body, key);
    } catch (error) {
      if (!(error instanceof TypeError) || trial === 2) throw error;
      await new Promise((go) => setTimeout(go, 500));
    }
  }
}

async function listen() {
  for (;;) {
    try {
      const answer = await fetch("/v1/events", { headers: headers() });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      await refresh();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) heard(part);
      }
    } catch { /* the server may come back */ }
    say("state", "Connection lost; trying again…", "waiting");
    await new Promise((go) => setTimeout(go, 2000));
  }
}

function heard(part) {
  const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
  if (!name || !data) return;
  const about = JSON.parse(data[1]);
  if (name[1] === "changed") happened(about);
  if (name[1] === "changed" || name[1] === "ready") refresh();
  if (name[1] === "failed") problem(`The network cannot be built: ${about.error}`);
}

// ---- what the model is ----------------------------------------------------------------------

async function refresh() {
  const model = await call("/v1/model");
  const first = state.model === null;
  const answered = state.model && state.model.answering.sha256;
  state.model = model;
  at("name").textContent = model.name;
  if (first) {
    happened({ what: "start", sha256: model.sha256, classes: [], time: new Date().toISOString() });
    openWays(model.input);
    lock();
  }
  const ready = model.answering.sha256 === model.sha256;
  say("state", ready ? "Ready" : "Building the new network; the old one answers", ready ? "good" : "waiting");
  showClasses(model);
  showHash(model.sha256);
  showRates(model.answering.delta_R, answered !== model.answering.sha256);
  if (answered !== model.answering.sha256) ask();
}

function lock() {
  const closed = state.model && state.model.read_only;
  at("unlock").hidden = Boolean(token) || Boolean(closed);
  at("teach").hidden = !token || Boolean(closed);
  at("teach-note").textContent = closed ? "This server is read-only: ask, but do not teach."
    : token ? teachNote() : "You can ask. To teach or forget, open the address that the server printed, or paste its token.";
  at("back").parentElement.hidden = !token || Boolean(closed);
  if (state.model) showClasses(state.model);
}

const teachNote = () => (state.way === "draw"
  ? `A drawing is taught as ${COPIES} samples: itself and slightly varied copies.` : "");

function showClasses(model) {
  const may = token && !model.read_only;
  at("total").textContent = `${model.classes.length.toLocaleString()}, ${model.samples.toLocaleString()} samples`;
  at("classes").replaceChildren(...model.classes.map((one) => {
    const row = make("li", "chip"), name = String(one.class);
    row.append(make("span", "chip-name", name), make("span", "quiet", one.samples.toLocaleString()));
    if (may && model.classes.length > 1) row.append(forgetButton(one.class, name));
    return row;
  }));
  at("known").replaceChildren(...model.classes.slice(0, 500).map((one) => {
    const option = make("option");
    option.value = String(one.class);
    return option;
  }));
}

function forgetButton(label, name) {
  const button = make("button", "forget", "Forget");
  button.type = "button";
  button.setAttribute("aria-label", `Forget ${name}`);
  button.addEventListener("click", async () => {
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = "Sure?";
      button.setAttribute("aria-label", `Really forget ${name}?`);
      setTimeout(() => {
        button.classList.remove("sure");
        button.textContent = "Forget";
        button.setAttribute("aria-label", `Forget ${name}`);
      }, 4000);
      return;
    }
    button.disabled = true;
    await attempt(() => change("/v1/forget", { classes: [label] }));
    state.taught = state.taught.filter((one) => one.label !== name);
    at("back").disabled = !state.taught.length;
  });
  return button;
}

// ---- the hash, and what happened ------------------------------------------------------------

const WORDS = {
  start: () => "When you came",
  learn: (names) => `Learnt ${names}`,
  unlearn: (names) => `Took back ${names}`,
  forget: (names) => `Forgot ${names}`,
  merge: () => "Merged another model",
  file: () => "Changed by another program",
};

function happened(about) {
  const known = state.history.findIndex((one) => one.sha256 === about.sha256);
  const names = about.classes.map((one) => `${one.class}`).join(", ");
  const words = (WORDS[about.what] || WORDS.file)(names);
  state.history.push({ sha256: about.sha256, words, time: about.time });
  const row = make("li");
  const when = new Date(about.time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  row.append(swatches(about.sha256, 6), make("span", "", words), make("time", "quiet", when));
  at("history").prepend(row);
  while (at("history").children.length > 50) at("history").lastChild.remove();
  const same = at("same");
  same.hidden = known < 0;
  if (known >= 0) {
    row.classList.add("returned");
    same.textContent = `The same file as “${state.history[known].words.toLowerCase()}”, byte for byte.`;
    at("hash").classList.remove("flash");
    void at("hash").offsetWidth; // so that it begins again
    at("hash").classList.add("flash");
  }
}

function showHash(sha256) {
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

function showRates(rates, changed) {
  const plot = at("rates"), said = at("rate");
  plot.parentElement.hidden = !rates || !rates.length;
  if (!rates || !rates.length || !changed) return;
  const before = state.rates;
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
  state.rates = rates;
}

// ---- asking ---------------------------------------------------------------------------------

async function ask() {
  if (state.asking) { state.again = true; return; }
  state.asking = true;
  try {
    do {
      state.again = false;
      const given = await sample(1);
      showAnswer(given ? await asked(given) : null);
    } while (state.again);
  } catch (error) {
    problem(error.message);
  } finally {
    state.asking = false;
  }
}

async function asked(given) {
  if (given.files) {
    const form = new FormData();
    for (const file of given.files.slice(0, 1)) form.append("files", file, nameOf(file));
    form.append("top", `${SHOWN}`);
    form.append("novelty", "true");
    return call("/v1/predict/files", form);
  }
  const one = given.texts ? { text: given.texts[0] } : { sample: given.samples[0] };
  return call("/v1/predict", { ...one, top: SHOWN, novelty: true });
}

// What is shown now, as the server takes it: samples, texts or files; null where there is nothing.
async function sample(copies) {
  const [height, width, colours] = state.model.input.shape || [];
  if (state.way === "draw") {
    const all = copies > 1 ? variants(state.strokes, copies) : [state.strokes];
    const samples = all.map((one) => grid(one, height, width)).filter(Boolean);
    showSeen(samples[0] || null, height, width);
    return samples.length ? { samples } : null;
  }
  if (state.way === "text") {
    const text = at("text").value.trim();
    return text ? { texts: [text] } : null;
  }
  if (state.way === "vector") {
    const words = at("vector").value.split(/[\s,;]+/).filter(Boolean);
    const values = words.map(Number);
    return values.length === state.model.input.values && values.every(Number.isFinite)
      ? { samples: [values] } : null;
  }
  const sources = state.way === "camera" ? [at("video")] : state.files.map((one) => one.image);
  const there = sources.filter((one) => (one.videoWidth || one.naturalWidth));
  if (!there.length) return null;
  if (state.model.input.resized) {
    return { files: state.way === "camera" ? [await frame()] : state.files.map((one) => one.file) };
  }
  const samples = (copies > 1 ? there : there.slice(0, 1))
    .map((one) => pixelsOf(one, height, width, colours)).filter(Boolean);
  return samples.length ? { samples } : null;
}

function pixelsOf(source, height, width, colours) {
  const w = source.videoWidth || source.naturalWidth, h = source.videoHeight || source.naturalHeight;
  const grey = !colours;
  const side = grey ? Math.min(480, Math.max(w, h)) / Math.max(w, h) : 1;
  const canvas = document.createElement("canvas");
  canvas.width = grey ? Math.max(1, Math.round(w * side)) : width;
  canvas.height = grey ? Math.max(1, Math.round(h * side)) : height;
  const draw = canvas.getContext("2d", { willReadFrequently: true });
  draw.fillStyle = "white";
  draw.fillRect(0, 0, canvas.width, canvas.height);
  if (grey) draw.drawImage(source, 0, 0, canvas.width, canvas.height);
  else {
    const scale = Math.max(width / w, height / h);
    draw.drawImage(source, (width - w * scale) / 2, (height - h * scale) / 2, w * scale, h * scale);
  }
  const image = draw.getImageData(0, 0, canvas.width, canvas.height);
  if (grey) return inkOf(image, height, width);
  const values = [];
  for (let i = 0; i < image.data.length; i++) if (i % 4 < 3) values.push(image.data[i]);
  return values;
}

async function frame() {
  const video = at("video"), canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  return new Promise((give) => canvas.toBlob(give, "image/jpeg", 0.92));
}

const nameOf = (file) => file.name || "frame.jpg";

function showAnswer(found) {
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
  clearTimeout(state.last);
  state.last = setTimeout(() => {
    at("said").textContent = answer
      ? `${answer.label}, ${share(answer.top[0].probability)}${novel ? ", unlike all that it has seen" : ""}` : "";
  }, 700);
}

const share = (p) => (p >= 0.9995 ? "100%" : p < 0.0005 ? "0%" : `${(100 * p).toFixed(p > 0.1 ? 0 : 1)}%`);

// ---- teaching -------------------------------------------------------------------------------

at("teach").addEventListener("submit", async (event) => {
  event.preventDefault();
  const label = at("label").value.trim();
  const given = await sample(COPIES);
  if (!given || !label) { problem(given ? "Give it a label first." : "Show it something first."); return; }
  if (await attempt(() => send("learn", given, label))) {
    state.taught.push({ given, label });
    at("back").disabled = false;
    at("label").select();
    say("said", `Taught ${label}.`);
  }
});

at("back").addEventListener("click", async () => {
  const last = state.taught[state.taught.length - 1];
  if (last && await attempt(() => send("unlearn", last.given, last.label))) {
    state.taught.pop();
    say("said", `Took back ${last.label}.`);
  }
  at("back").disabled = !state.taught.length;
});

function send(what, given, label) {
  if (given.files) {
    const form = new FormData();
    for (const file of given.files) form.append("files", file, nameOf(file));
    form.append("labels", label);
    return change(`/v1/${what}/files`, form);
  }
  return change(`/v1/${what}`, { ...given, label });
}

// One change at a time: what a second click means depends on what the first has done.
async function attempt(work) {
  if (document.body.classList.contains("busy")) return false;
  document.body.classList.add("busy");
  at("back").disabled = true;
  try {
    await work();
    at("problem").hidden = true;
    await refresh();
    return true;
  } catch (error) {
    problem(error.message);
    return false;
  } finally {
    document.body.classList.remove("busy");
    at("back").disabled = !state.taught.length;
  }
}

at("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  if (token) sessionStorage.setItem("token", token);
  lock();
});

at("export").addEventListener("click", async () => {
  const answer = await fetch("/v1/model/file", { headers: headers() });
  if (!answer.ok) { problem("The model could not be downloaded."); return; }
  const link = make("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = state.model.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
});

// ---- ways to show something -----------------------------------------------------------------

function openWays(input) {
  const grey = input.kind === "images" && input.shape && input.shape.length === 2;
  const ways = { texts: ["text"], vectors: ["vector"], images: ["image", "camera"] }[input.kind];
  if (grey && !input.resized) ways.unshift("draw");
  const names = { draw: "Draw", image: "Image", camera: "Camera", text: "Text", vector: "Numbers" };
  at("ways").replaceChildren(...ways.map((way) => {
    const tab = make("button", "", names[way]);
    tab.type = "button";
    tab.id = `tab-${way}`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", `way-${way}`);
    at(`way-${way}`).setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => choose(way, ways));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) choose(ways[(ways.indexOf(way) + step + ways.length) % ways.length], ways, true);
    });
    return tab;
  }));
  at("ways").hidden = ways.length < 2;
  const columns = input.columns ? `: ${input.columns.slice(0, 6).join(", ")}${input.columns.length > 6 ? ", …" : ""}` : "";
  at("vector").placeholder = `${input.values} numbers${columns}`;
  choose(ways[0], ways);
}

async function choose(way, ways, focus = false) {
  state.way = way;
  for (const one of ways) {
    at(`way-${one}`).hidden = one !== way;
    const tab = at(`tab-${one}`);
    tab.setAttribute("aria-selected", `${one === way}`);
    tab.tabIndex = one === way ? 0 : -1;
    if (focus && one === way) tab.focus();
  }
  lock();
  if (way === "camera") await camera(); else stopCamera();
  ask();
}

async function camera() {
  try {
    state.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    at("video").srcObject = state.stream;
    await at("video").play();
    at("camera-text").textContent = "";
    state.looking = setInterval(() => { if (!document.hidden) ask(); }, 500);
  } catch {
    at("camera-text").textContent = "No camera, or it may not be used here.";
  }
}

function stopCamera() {
  clearInterval(state.looking);
  if (state.stream) for (const track of state.stream.getTracks()) track.stop();
  state.stream = null;
}

async function take(files) {
  const images = [...files].filter((one) => one.type.startsWith("image/")).slice(0, 50);
  if (!images.length) { problem("Expected an image."); return; }
  state.files = await Promise.all(images.map(async (file) => {
    const image = new Image();
    image.src = URL.createObjectURL(file);
    await image.decode().catch(() => problem(`${file.name} is no image that can be read here.`));
    return { file, image };
  }));
  at("picture").src = state.files[0].image.src;
  at("picture").hidden = false;
  at("drop-text").textContent = images.length > 1 ? `${images.length} images; the first is shown` : "";
  ask();
}

at("file").addEventListener("change", (event) => take(event.target.files));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (!event.dataTransfer.files.length || !at("tab-image")) return;
  at("tab-image").click();
  take(event.dataTransfer.files);
});
document.addEventListener("paste", (event) => {
  if (event.clipboardData.files.length && at("tab-image")) {
    at("tab-image").click();
    take(event.clipboardData.files);
  }
});
for (const id of ["text", "vector"]) {
  let soon;
  at(id).addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(ask, 250); });
}

// ---- drawing --------------------------------------------------------------------------------

function place(event) {
  const box = pad.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
}

pad.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  pad.setPointerCapture(event.pointerId);
  state.strokes.push([place(event)]);
  drawn();
  event.preventDefault();
  pad.focus();
});
pad.addEventListener("pointermove", (event) => {
  if (!pad.hasPointerCapture(event.pointerId)) return;
  const events = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
  for (const one of events.length ? events : [event]) state.strokes[state.strokes.length - 1].push(place(one));
  drawn();
});
pad.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === "Escape") { clear(); return; }
  if (event.key === " ") {
    state.down = !state.down;
    if (state.down) state.strokes.push([[...state.cursor]]);
  } else if (step) {
    state.cursor = state.cursor.map((value, i) => Math.max(0.05, Math.min(0.95, value + 0.05 * step[i])));
    if (state.down) state.strokes[state.strokes.length - 1].push([...state.cursor]);
  } else return;
  event.preventDefault();
  drawn(true);
});

function drawn(cursor = false) {
  const size = pad.width, style = getComputedStyle(pad);
  pen.clearRect(0, 0, size, size);
  pen.strokeStyle = pen.fillStyle = style.color;
  pen.lineWidth = size / 14;
  pen.lineCap = pen.lineJoin = "round";
  for (const stroke of state.strokes) {
    pen.beginPath();
    stroke.forEach(([x, y], i) => (i ? pen.lineTo(x * size, y * size) : pen.moveTo(x * size, y * size)));
    if (stroke.length === 1) pen.lineTo(stroke[0][0] * size + 0.1, stroke[0][1] * size);
    pen.stroke();
  }
  if (cursor) {
    pen.globalAlpha = state.down ? 1 : 0.4;
    pen.beginPath();
    pen.arc(state.cursor[0] * size, state.cursor[1] * size, size / 28, 0, 7);
    pen.fill();
    pen.globalAlpha = 1;
  }
  at("pad-hint").hidden = state.strokes.length > 0;
  ask();
}

function clear() {
  state.strokes = [];
  state.down = false;
  state.files = [];
  at("picture").hidden = true;
  at("file").value = "";
  at("drop-text").textContent = "Drop an image here, or choose one";
  at("text").value = at("vector").value = "";
  drawn();
}
at("clear").addEventListener("click", clear);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn());

function showSeen(pixels, height, width) {
  const canvas = at("seen");
  canvas.hidden = !pixels;
  if (!pixels) return;
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  pixels.forEach((value, i) => {
    image.data.fill(255 * value / levels(height), 4 * i, 4 * i + 3);
    image.data[4 * i + 3] = 255;
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// ---- small things ---------------------------------------------------------------------------

function make(kind, name = "", text = "") {
  const one = document.createElement(kind);
  if (name) one.className = name;
  if (text) one.textContent = text;
  return one;
}

function say(id, text, kind) {
  at(id).textContent = text;
  if (kind) at(id).dataset.kind = kind;
}

function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = false;
  clearTimeout(state.problem);
  state.problem = setTimeout(() => { at("problem").hidden = true; }, 8000);
}

listen();

// The page that teaches a model by hand.
import { grid, inkOf, variants } from "./draw.js";
import { clearPad, showSeen, strokes } from "./pad.js";
import { call, change, headers, listen, unlock, unlocked } from "./server.js";
import { at, happened, make, problem, say, showAnswer, showHash, showRates } from "./show.js";

const COPIES = 24; // samples that one drawing is taught as
const SHOWN = 10; // classes with bars
const state = { model: null, way: null, files: [], taught: [], asking: false, again: false, stream: null };

// ---- what the model is ----------------------------------------------------------------------

// Ask what the model is now; while that is under way, once more is enough for all who ask.
function refresh() {
  state.stale = true;
  state.refreshing ??= (async () => {
    try {
      while (state.stale) {
        state.stale = false;
        await look();
      }
    } finally {
      state.refreshing = null;
    }
  })();
  return state.refreshing;
}

async function look() {
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
  const building = model.failed ? `The network cannot be built: ${model.failed}` : "Building the new network; the old one answers";
  say("state", ready ? "Ready" : building, ready ? "good" : "waiting");
  showClasses(model);
  showHash(model.sha256);
  showRates(model.answering.delta_R, answered !== model.answering.sha256);
  if (answered !== model.answering.sha256) ask();
}

function lock() {
  const closed = state.model && state.model.read_only;
  at("unlock").hidden = unlocked() || Boolean(closed);
  at("teach").hidden = !unlocked() || Boolean(closed);
  at("teach-note").textContent = closed ? "This server is read-only: ask, but do not teach."
    : unlocked() ? teachNote() : "You can ask. To teach or forget, open the address that the server printed, or paste its token.";
  at("back").parentElement.hidden = !unlocked() || Boolean(closed);
  if (state.model) showClasses(state.model);
}

const teachNote = () => (state.way === "draw"
  ? `A drawing is taught as ${COPIES} samples: itself and slightly varied copies.` : "");

function showClasses(model) {
  const may = unlocked() && !model.read_only;
  const found = JSON.stringify([may, model.classes]);
  if (found === state.classes) return; // a button that is in use stays as it is
  state.classes = found;
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
    at("label").focus({ preventScroll: true }); // the button is gone
  });
  return button;
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
    const all = copies > 1 ? variants(strokes(), copies) : [strokes()];
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
  unlock(at("token").value.trim());
  at("token").value = "";
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

function clear() {
  state.files = [];
  at("picture").hidden = true;
  at("file").value = "";
  at("drop-text").textContent = "Drop an image here, or choose one";
  at("text").value = at("vector").value = "";
  clearPad();
}
at("clear").addEventListener("click", clear);
at("pad").addEventListener("drawn", ask);
document.addEventListener("token", lock);

listen({
  begun: refresh,
  heard(name, about) {
    if (name === "changed") happened(about);
    if (name === "failed") problem(`The network cannot be built: ${about.error}`);
    else refresh();
  },
  lost: () => say("state", "Connection lost; trying again…", "waiting"),
});

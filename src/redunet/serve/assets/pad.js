// The drawing area: strokes by mouse, finger or keys, as lists of points in the unit square.
import { levels } from "./draw.js";
import { at } from "./show.js";

const pad = at("pad"), pen = pad.getContext("2d");
const drawing = { strokes: [], cursor: [0.5, 0.5], down: false };

export const strokes = () => drawing.strokes;

export function clearPad() {
  drawing.strokes = [];
  drawing.down = false;
  drawn();
}

function place(event) {
  const box = pad.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
}

pad.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  pad.setPointerCapture(event.pointerId);
  drawing.strokes.push([place(event)]);
  drawn();
  event.preventDefault();
  pad.focus();
});
pad.addEventListener("pointermove", (event) => {
  if (!pad.hasPointerCapture(event.pointerId)) return;
  const events = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
  for (const one of events.length ? events : [event]) drawing.strokes[drawing.strokes.length - 1].push(place(one));
  drawn();
});
pad.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === "Escape") { clearPad(); return; }
  if (event.key === " ") {
    drawing.down = !drawing.down;
    if (drawing.down) drawing.strokes.push([[...drawing.cursor]]);
  } else if (step) {
    drawing.cursor = drawing.cursor.map((value, i) => Math.max(0.05, Math.min(0.95, value + 0.05 * step[i])));
    if (drawing.down) drawing.strokes[drawing.strokes.length - 1].push([...drawing.cursor]);
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
  for (const stroke of drawing.strokes) {
    pen.beginPath();
    stroke.forEach(([x, y], i) => (i ? pen.lineTo(x * size, y * size) : pen.moveTo(x * size, y * size)));
    if (stroke.length === 1) pen.lineTo(stroke[0][0] * size + 0.1, stroke[0][1] * size);
    pen.stroke();
  }
  if (cursor) {
    pen.globalAlpha = drawing.down ? 1 : 0.4;
    pen.beginPath();
    pen.arc(drawing.cursor[0] * size, drawing.cursor[1] * size, size / 28, 0, 7);
    pen.fill();
    pen.globalAlpha = 1;
  }
  at("pad-hint").hidden = drawing.strokes.length > 0;
  pad.dispatchEvent(new Event("drawn"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn());

// The drawing as the model sees it.
export function showSeen(pixels, height, width) {
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

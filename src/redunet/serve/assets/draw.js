// Strokes and pictures as the model takes them: pixels of an image, row by row.
"use strict";

const FINE = 4; // small cells along a side of one pixel, of which the share under the pen counts

// How a drawing lies in an image. The digits of scikit-learn fill their 8×8 pixels from top to
// bottom; larger images, as of MNIST, have a margin.
function layout(height, width) {
  const small = height <= 8;
  return {
    high: height * (small ? 31 / 32 : 20 / 28),
    wide: width * (small ? 26 / 32 : 20 / 28),
    pen: Math.max(1, height * (small ? 4.5 / 32 : 2.6 / 28)),
    top: small ? 16 : 255,
  };
}

export function levels(height) {
  return layout(height, height).top;
}

// The pixels of strokes, lists of points [x, y] of any scale, or null where there is nothing.
export function grid(strokes, height, width) {
  const points = strokes.flat();
  if (!points.length) return null;
  const { high, wide, pen, top } = layout(height, width);
  const [left, right] = ends(points, 0), [above, below] = ends(points, 1);
  const scale = Math.min(
    (high - pen) / Math.max(below - above, 1e-9),
    (wide - pen) / Math.max(right - left, 1e-9),
    Math.max(high, wide) * 4 / Math.max(right - left, below - above, 1e-9));
  const here = ([x, y]) => [
    ((x - (left + right) / 2) * scale + width / 2) * FINE,
    ((y - (above + below) / 2) * scale + height / 2) * FINE];
  const rows = height * FINE, columns = width * FINE, reach = pen * FINE / 2;
  const inked = new Uint8Array(rows * columns);
  for (const stroke of strokes) {
    const line = stroke.map(here);
    for (let i = 0; i < line.length; i++) {
      ink(inked, rows, columns, line[Math.max(0, i - 1)], line[i], reach);
    }
  }
  const pixels = new Array(height * width).fill(0);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      pixels[Math.floor(r / FINE) * width + Math.floor(c / FINE)] += inked[r * columns + c];
    }
  }
  return pixels.map((count) => Math.round(count * top / (FINE * FINE)));
}

// Mark the cells whose centres are near the line from a to b.
function ink(inked, rows, columns, a, b, reach) {
  const dx = b[0] - a[0], dy = b[1] - a[1], length = Math.max(dx * dx + dy * dy, 1e-9);
  const from = (value, most) => Math.max(0, Math.min(most, Math.floor(value)));
  const firstRow = from(Math.min(a[1], b[1]) - reach, rows - 1);
  const lastRow = from(Math.max(a[1], b[1]) + reach, rows - 1);
  const first = from(Math.min(a[0], b[0]) - reach, columns - 1);
  const last = from(Math.max(a[0], b[0]) + reach, columns - 1);
  for (let r = firstRow; r <= lastRow; r++) {
    for (let c = first; c <= last; c++) {
      const x = c + 0.5 - a[0], y = r + 0.5 - a[1];
      const t = Math.max(0, Math.min(1, (x * dx + y * dy) / length));
      const ox = x - t * dx, oy = y - t * dy;
      if (ox * ox + oy * oy <= reach * reach) inked[r * columns + c] = 1;
    }
  }
}

function ends(points, axis) {
  let least = Infinity, most = -Infinity;
  for (const point of points) {
    least = Math.min(least, point[axis]);
    most = Math.max(most, point[axis]);
  }
  return [least, most];
}

// The drawing and slightly turned, stretched and bent copies of it: one drawing says little about
// how else the same thing may be drawn.
export function variants(strokes, count) {
  const points = strokes.flat();
  if (!points.length) return [];
  const [left, right] = ends(points, 0), [above, below] = ends(points, 1);
  const size = Math.max(right - left, below - above, 1e-9);
  const random = generator(1 + points.length);
  const found = [strokes];
  while (found.length < count) {
    const turn = 0.05 * random(), lean = 0.09 * random();
    const x = Math.exp(0.06 * random()), y = Math.exp(0.06 * random());
    const waves = [0, 1].map(() => [0.02 * random(), 3 * random(), 2 + Math.abs(2 * random())]);
    const bent = (value, [height, phase, speed]) => height * Math.sin(speed * 3 * value + phase);
    found.push(strokes.map((stroke) => stroke.map(([px, py]) => {
      const u = (px - (left + right) / 2) / size, v = (py - (above + below) / 2) / size;
      const a = (u + lean * v + bent(v, waves[0])) * x, b = (v + bent(u, waves[1])) * y;
      return [a * Math.cos(turn) - b * Math.sin(turn), a * Math.sin(turn) + b * Math.cos(turn)];
    })));
  }
  return found;
}

// Numbers of a normal distribution, the same each time.
function generator(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());
}

// A grey picture of something drawn or written, cropped to it, as bright on dark pixels.
export function inkOf(image, height, width) {
  const { data, width: w, height: h } = image;
  const grey = new Float64Array(w * h);
  for (let i = 0; i < grey.length; i++) {
    grey[i] = 0.299 * data[4 * i] + 0.587 * data[4 * i + 1] + 0.114 * data[4 * i + 2];
  }
  let border = 0, n = 0;
  for (let x = 0; x < w; x++) { border += grey[x] + grey[(h - 1) * w + x]; n += 2; }
  for (let y = 0; y < h; y++) { border += grey[y * w] + grey[y * w + w - 1]; n += 2; }
  border /= n;
  const far = grey.map((value) => Math.abs(value - border));
  const most = far.reduce((a, b) => Math.max(a, b), 1);
  const drawn = far.map((value) => Math.max(0, value / most - 0.35) / 0.65);
  const xs = [], ys = [];
  for (let i = 0; i < drawn.length; i++) {
    if (drawn[i] > 0.1) { xs.push(i % w); ys.push(Math.floor(i / w)); }
  }
  if (!xs.length) return null;
  const edge = (list, pick) => list.reduce((a, b) => pick(a, b));
  const left = edge(xs, Math.min), right = edge(xs, Math.max) + 1;
  const above = edge(ys, Math.min), below = edge(ys, Math.max) + 1;
  const { high, wide, top } = layout(height, width);
  const scale = Math.min(high / (below - above), wide / (right - left));
  const pixels = new Array(height * width).fill(0);
  const fine = 8;
  for (let r = 0; r < height * fine; r++) {
    for (let c = 0; c < width * fine; c++) {
      const x = ((c + 0.5) / fine - width / 2) / scale + (left + right) / 2;
      const y = ((r + 0.5) / fine - height / 2) / scale + (above + below) / 2;
      if (x < left || x >= right || y < above || y >= below) continue;
      pixels[Math.floor(r / fine) * width + Math.floor(c / fine)] +=
        drawn[Math.floor(y) * w + Math.floor(x)];
    }
  }
  return pixels.map((sum) => Math.round(Math.min(1, sum / (fine * fine)) * top));
}

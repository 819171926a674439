// Draws over the picture of a view: lines where the other slices cross it, the scale bar, and a
// distance.

import { scaleBar } from './lengths.js';
import { VIEWS } from './state.js';
import { cross, dot, length, sub } from './vectors.js';

/** Free radius around the point where all slices meet, in pixels. */
const GAP = 9;

/** Fits a canvas to its size on the screen; drawing coordinates are CSS pixels. */
export function fitted(canvas) {
  const density = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [wide, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext('2d');
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** Returns a colour of the style sheet by its name; each view has one. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Size of the scale bar: a fraction of the view, with limits in pixels. */
const BAR_SHARE = 0.3;
const BAR_PIXELS = [40, 160];

export function drawOverlay(canvas, view, state, measure) {
  const { context, width, height } = fitted(canvas);
  if (width < 8 || height < 8) return;
  const pixels = state.pixels(view, width, height);
  context.save();
  if (state.hasLines) drawLines(context, view, state, width, height, pixels);
  context.restore();
  drawBar(context, state, width, height, pixels);
  context.save();
  context.translate(width / 2, height / 2);
  drawMeasure(context, view, state, pixels, measure);
  context.restore();
}

function drawLines(context, view, state, width, height, pixels) {
  const [x, y] = state.point(view, state.at, pixels);
  const frame = state.frame(view);
  context.translate(width / 2 + x, height / 2 + y);
  const far = width + height + Math.abs(x) + Math.abs(y);
  for (const other of VIEWS) {
    if (other === view) continue;
    const along = cross(frame.away, state.frame(other).away);
    if (length(along) < 0.02) continue;
    const [right, down] = [dot(along, frame.right), dot(along, frame.down)];
    const size = Math.hypot(right, down);
    const [dx, dy] = [right / size, down / size];
    context.strokeStyle = colour(other);
    context.globalAlpha = other === 'oblique' ? 0.85 : 0.55;
    context.lineWidth = 1;
    context.setLineDash(other === 'oblique' ? [6, 4] : []);
    context.beginPath();
    for (const side of [-1, 1]) {
      context.moveTo(dx * GAP * side, dy * GAP * side);
      context.lineTo(dx * far * side, dy * far * side);
    }
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 0.9;
  context.fillStyle = '#fff';
  context.beginPath();
  context.arc(0, 0, 1.6, 0, 2 * Math.PI);
  context.fill();
}

/** Strokes a path visibly on black and on white. */
function strokeTwice(context, colours, width) {
  context.lineCap = 'round';
  for (const [style, more] of [[colours[0], 2.5], [colours[1], 0]]) {
    context.strokeStyle = style;
    context.lineWidth = width + more;
    context.stroke();
  }
}

/** Writes a text readably on black and on white. */
function writeTwice(context, text, x, y) {
  context.lineJoin = 'round';
  context.lineWidth = 3;
  context.strokeStyle = '#000c';
  context.strokeText(text, x, y);
  context.fillStyle = '#fff';
  context.fillText(text, x, y);
}

function drawBar(context, state, width, height, pixels) {
  const room = Math.min(Math.max(width * BAR_SHARE, BAR_PIXELS[0]), BAR_PIXELS[1]);
  const bar = scaleBar(pixels, state.facts.units.lengths, room);
  const [left, bottom] = [12.5, height - 10.5];
  context.beginPath();
  context.moveTo(left, bottom - 5);
  context.lineTo(left, bottom);
  context.lineTo(left + bar.pixels, bottom);
  context.lineTo(left + bar.pixels, bottom - 5);
  strokeTwice(context, ['#000c', '#fff'], 1.5);
  context.font = '12px system-ui, sans-serif';
  context.textAlign = 'left';
  context.textBaseline = 'bottom';
  writeTwice(context, bar.text, left + 5, bottom - 3);
}

function drawMeasure(context, view, state, pixels, measure) {
  const { ends } = measure;
  if (ends.length === 0) return;
  const { away } = state.frame(view);
  const points = ends.map((end) => state.point(view, end, pixels));
  // Ends outside this slice are drawn as seen through it.
  const isHere = (end) => Math.abs(dot(sub(end, state.middle(view)), away)) <= state.fine;
  const areHere = ends.every(isHere);
  context.globalAlpha = areHere ? 1 : 0.45;
  if (points.length === 2) {
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x, y));
    strokeTwice(context, ['#000c', '#ffe14d'], 1.5);
  }
  for (const [x, y] of points) {
    context.beginPath();
    context.moveTo(x - 5, y);
    context.lineTo(x + 5, y);
    context.moveTo(x, y - 5);
    context.lineTo(x, y + 5);
    strokeTwice(context, ['#000c', '#ffe14d'], 1.5);
  }
  // A line that is seen through the slice looks shorter than it is.
  if (points.length < 2 || !areHere) return;
  context.font = '600 13px system-ui, sans-serif';
  context.textAlign = 'left';
  context.textBaseline = 'bottom';
  const [from, to] = points;
  writeTwice(context, measure.text(state), (from[0] + to[0]) / 2 + 8, (from[1] + to[1]) / 2 - 6);
}

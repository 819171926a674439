// The lines in a view where the other slices meet it.

import { cross, dot, length } from './vectors.js';
import { VIEWS } from './state.js';

/** Around the place where all meet, so much stays free, in pixels. */
const GAP = 9;

/** Fits a canvas to its size on the screen; all that is drawn then counts in CSS pixels. */
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

/** The colour of a view, as the style sheet has it. */
export function hue(view) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${view}`).trim();
}

export function drawLines(canvas, view, state) {
  const { context, width, height } = fitted(canvas);
  if (!state.hasLines) return;
  const pixels = state.pixels(view, width, height);
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
    context.strokeStyle = hue(other);
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

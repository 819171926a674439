// Draws all views as one picture, as on the screen: slices, lines, scale bars, distances.

import { colour } from './overlay.js';

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const LINE = 22;

/** Draws the views of a page to a canvas, with `caption` below them. */
export function pictureOf(views, caption) {
  const density = Math.min(window.devicePixelRatio || 1, 2);
  const all = views.getBoundingClientRect();
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(all.width * density);
  canvas.height = Math.round((all.height + LINE) * density);
  const context = canvas.getContext('2d');
  context.scale(density, density);
  context.fillStyle = colour('ground');
  context.fillRect(0, 0, all.width, all.height + LINE);
  context.font = FONT;
  context.textBaseline = 'middle';
  const write = (text, x, y, name, align = 'left') => {
    context.fillStyle = colour(name);
    context.textAlign = align;
    context.fillText(text, x, y);
  };
  for (const view of views.querySelectorAll('.view')) {
    const place = (element) => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return [left - all.left, top - all.top, width, height];
    };
    const [left, top, width] = place(view);
    context.fillStyle = colour('raised');
    context.fillRect(...place(view));
    const [bar] = view.getElementsByClassName('bar');
    const middle = top + bar.clientHeight / 2;
    write(view.querySelector('.title').textContent, left + 8, middle, 'text');
    write(view.querySelector('.where').textContent, left + width - 8, middle, 'quiet', 'right');
    const stage = place(view.querySelector('.stage'));
    context.fillStyle = colour('outside');
    context.fillRect(...stage);
    for (const layer of view.querySelectorAll('canvas')) {
      if (layer.width > 0 && layer.height > 0) context.drawImage(layer, ...stage);
    }
  }
  write(caption, 8, all.height + LINE / 2, 'quiet');
  return canvas;
}

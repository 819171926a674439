// Requests the picture of a view: coarse during a movement, sharp when the view is still. At most
// one request of a view is under way; an outdated one is aborted.

import { cornersOf, section } from './section.js';
import { add, dot, scale, sub } from './vectors.js';

/** Name of this client: a new one for each page that is opened. */
export const CLIENT = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
  byte.toString(16).padStart(2, '0'),
).join('');

/** Limit for width and height of a picture. */
const LIMIT = 4096;

export class Slices {
  /** `hear` receives every picture, and every error. */
  constructor(view, canvas, fetch, hear) {
    this.view = view;
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.fetch = fetch;
    this.hear = hear;
    this.sequence = 0;
    this.coarseness = 2;
    this.shown = null;
    this.asked = null;
    this.next = null;
  }

  /** Returns the query for the current state. */
  wish(state, isSharp) {
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth < 8 || clientHeight < 8) return null;
    const finest = Math.min(window.devicePixelRatio || 1, 2, LIMIT / clientWidth, LIMIT / clientHeight);
    const density = isSharp ? finest : finest / this.coarseness;
    const width = Math.max(1, Math.round(clientWidth * density));
    const height = Math.max(1, Math.round(clientHeight * density));
    const pixels = state.pixels(this.view, clientWidth, clientHeight) * density;
    const { right, down } = state.frame(this.view);
    const [left, above] = [(width - 1) / 2 / pixels, (height - 1) / 2 / pixels];
    const origin = add(state.middle(this.view), add(scale(right, -left), scale(down, -above)));
    const query = new URLSearchParams({
      origin: origin.join(','),
      right: scale(right, state.fine).join(','),
      down: scale(down, state.fine).join(','),
      width,
      height,
      zoom: pixels * state.fine,
      interpolation: state.isSmooth ? 'trilinear' : 'nearest',
      low: state.low,
      high: state.high,
    });
    if (isSharp) {
      query.set('format', 'png');
      query.set('outside', 'transparent');
    } else {
      query.set('format', 'jpeg');
    }
    const path = `api/volumes/${state.facts.number}/slice?${query}`;
    const steps = [scale(right, 1 / pixels), scale(down, 1 / pixels)];
    const wish = { path, isSharp, origin, steps, width, height };
    if (!isSharp) wish.outline = this.outline(state, wish, pixels);
    return wish;
  }

  /** Returns the outline of the volume in a picture without transparency, in its pixels. */
  outline(state, { origin }, pixels) {
    const { right, down } = state.frame(this.view);
    // A voxel reaches half way to the next one; interpolated values end at the last one.
    const share = state.isSmooth ? 1e-3 : 0.5;
    const corners = cornersOf(state, state.facts.spacing.map((side) => side * share));
    return section(state, this.view, corners).map((place) => {
      const way = sub(place, origin);
      return [dot(way, right) * pixels + 0.5, dot(way, down) * pixels + 0.5];
    });
  }

  /** Shows a state as soon as possible. */
  show(state, isSharp) {
    const wish = this.wish(state, isSharp);
    const latest = (this.asked ?? this.shown)?.path;
    if (!wish || wish.path === latest || this.wish(state, true).path === latest) return;
    if (this.asked && !this.asked.isSharp) {
      // A coarse picture is nearly there, and better than none.
      this.next = wish;
      return;
    }
    this.asked?.stop.abort();
    this.ask(wish);
  }

  /** Aborts all requests. */
  stop() {
    this.next = null;
    this.asked?.stop.abort();
    this.asked = null;
  }

  async ask(wish) {
    const asked = { ...wish, stop: new AbortController(), begin: performance.now() };
    this.asked = asked;
    this.next = null;
    this.sequence += 1;
    const path = `${wish.path}&client=${CLIENT}&view=${this.view}&sequence=${this.sequence}`;
    try {
      const response = await this.fetch(path, asked.stop.signal);
      const blob = await response.blob();
      const options = { colorSpaceConversion: 'none', premultiplyAlpha: 'none' };
      const picture = await createImageBitmap(blob, options);
      if (this.asked !== asked) return;
      this.draw(picture, asked, response, blob.size);
    } catch (error) {
      if (this.asked !== asked) return;
      this.hear(this.view, null, error);
    }
    this.asked = null;
    if (this.next) this.ask(this.next);
  }

  draw(picture, asked, response, bytes) {
    const { canvas } = this;
    const density = Math.min(window.devicePixelRatio || 1, 2);
    const width = asked.isSharp ? asked.width : Math.round(canvas.clientWidth * density);
    const height = asked.isSharp ? asked.height : Math.round(canvas.clientHeight * density);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const { context } = this;
    context.imageSmoothingQuality = 'medium';
    context.clearRect(0, 0, width, height);
    context.save();
    if (asked.outline) {
      context.beginPath();
      for (const [x, y] of asked.outline) {
        context.lineTo((x * width) / asked.width, (y * height) / asked.height);
      }
      context.clip();
    }
    context.drawImage(picture, 0, 0, width, height);
    context.restore();
    picture.close();
    // Choose a coarser picture if the last one was slow, so that it follows the hand.
    const time = performance.now() - asked.begin;
    if (!asked.isSharp) this.coarseness = time > 160 ? 4 : time > 80 ? 3 : 2;
    this.shown = asked;
    canvas.dataset.path = asked.path;
    canvas.dataset.sharp = asked.isSharp;
    const figure = (name) => Number(response.headers.get(`X-Pario-${name}`));
    this.hear(this.view, {
      milliseconds: figure('Milliseconds'),
      extents: figure('Extents'),
      hits: figure('Cache-Hits'),
      read: figure('Bytes-Read'),
      bytes,
    });
  }
}

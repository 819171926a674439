// Draws the volume as a box, with the positions of the slices. The oblique slice shows its picture.

import { fitted, colour } from './overlay.js';
import { cornersOf, EDGES, section } from './section.js';
import { VIEWS } from './state.js';
import { add, cross, dot, scale, sub } from './vectors.js';

export class Box {
  constructor(canvas) {
    this.canvas = canvas;
    this.reset();
  }

  reset() {
    this.aside = -0.55;
    this.above = 0.42;
  }

  /** Turns the viewpoint. */
  orbit(x, y) {
    this.aside -= x;
    this.above = Math.min(Math.max(this.above + y, -1.5), 1.5);
  }

  /** Right, down and forward directions of the viewpoint. */
  frame() {
    const right = [Math.cos(this.aside), Math.sin(this.aside), 0];
    const level = cross(right, [0, 0, 1]);
    const [sine, cosine] = [Math.sin(this.above), Math.cos(this.above)];
    return {
      right,
      down: add(scale([0, 0, 1], cosine), scale(level, -sine)),
      away: add(scale(level, cosine), scale([0, 0, 1], sine)),
    };
  }

  draw(state, oblique) {
    const { context, width, height } = fitted(this.canvas);
    const { right, down, away } = this.frame();
    const pixels = (Math.min(width, height) * 0.92) / Math.hypot(...state.last);
    const middle = scale(state.last, 0.5);
    const direction = (way) => [dot(way, right) * pixels, dot(way, down) * pixels];
    const project = (place) => {
      const [x, y] = direction(sub(place, middle));
      return [x + width / 2, y + height / 2];
    };
    const corners = cornersOf(state);
    const depth = corners.map((corner) => dot(corner, away));
    const farthest = depth.indexOf(Math.max(...depth));
    const isBehind = ([from, to]) => from === farthest || to === farthest;
    const path = (places) => {
      context.beginPath();
      places.map(project).forEach(([x, y]) => context.lineTo(x, y));
    };
    const edges = (chosen, colour) => {
      context.strokeStyle = colour;
      context.lineWidth = 1;
      for (const [from, to] of chosen) {
        path([corners[from], corners[to]]);
        context.stroke();
      }
    };

    edges(EDGES.filter(isBehind), colour('behind'));
    for (const view of VIEWS) {
      const outline = section(state, view, corners);
      if (outline.length < 3) continue;
      context.save();
      path(outline);
      context.closePath();
      if (view === 'oblique' && oblique.shown) {
        context.clip();
        paint(context, oblique, project, direction);
        context.restore();
        context.save();
        path(outline);
        context.closePath();
      }
      context.strokeStyle = colour(view);
      context.fillStyle = colour(view);
      context.globalAlpha = view === 'oblique' ? 0.05 : 0.06;
      context.fill();
      context.globalAlpha = view === 'oblique' ? 1 : 0.75;
      context.lineWidth = view === 'oblique' ? 1.5 : 1;
      context.stroke();
      context.restore();
    }
    edges(EDGES.filter((edge) => !isBehind(edge)), colour('edge'));
    this.names(context, project, corners);
  }

  names(context, project, corners) {
    context.fillStyle = colour('quiet');
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    const centre = scale(corners[7], 0.5);
    ['x', 'y', 'z'].forEach((name, axis) => {
      // Place the label beside the lowest edge along the axis, or the leftmost one.
      const edges = EDGES.filter(([from, to]) => (from ^ to) === 1 << axis);
      const places = edges.map(([from, to]) => {
        const half = scale(add(corners[from], corners[to]), 0.5);
        return project(add(half, scale(sub(half, centre), 0.17)));
      });
      const rank = ([x, y]) => (axis === 2 ? -x : y);
      const [x, y] = places.reduce((best, one) => (rank(one) > rank(best) ? one : best));
      context.fillText(name, x, y);
    });
  }
}

/** Draws the picture of the oblique slice on its plane. */
function paint(context, oblique, project, direction) {
  const { origin, steps, width, height } = oblique.shown;
  const { canvas } = oblique;
  const [across, along] = [width / canvas.width, height / canvas.height];
  const [a, b] = direction(scale(steps[0], across));
  const [c, d] = direction(scale(steps[1], along));
  const corner = sub(sub(origin, scale(steps[0], 0.5)), scale(steps[1], 0.5));
  const [e, f] = project(corner);
  context.transform(a, b, c, d, e, f);
  context.drawImage(canvas, 0, 0);
}

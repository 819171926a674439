// Computes the intersection of a slice with the box of the volume.

import { add, dot, scale, sub } from './vectors.js';

const CORNERS = Array.from({ length: 8 }, (_, bits) => [bits & 1, (bits >> 1) & 1, bits >> 2]);

/** Pairs of corners that differ along one axis. */
export const EDGES = CORNERS.flatMap((_, from) =>
  [1, 2, 4].filter((bit) => !(from & bit)).map((bit) => [from, from | bit]),
);

/** Returns the corners of a volume: positions of voxels, extended by a margin along each axis. */
export function cornersOf(state, margin = [0, 0, 0]) {
  return CORNERS.map((bits) =>
    bits.map((bit, axis) => (bit ? state.last[axis] + margin[axis] : -margin[axis])),
  );
}

/** Returns the corners of the intersection of a slice and a box, in order. */
export function section(state, view, corners) {
  const { right, down, away } = state.frame(view);
  const on = state.middle(view);
  const heights = corners.map((corner) => dot(sub(corner, on), away));
  const met = [];
  for (const [from, to] of EDGES) {
    const [before, behind] = [heights[from], heights[to]];
    if (before * behind > 0 || before === behind) continue;
    const share = before / (before - behind);
    met.push(add(corners[from], scale(sub(corners[to], corners[from]), share)));
  }
  if (met.length === 0) return met;
  const middle = scale(met.reduce(add), 1 / met.length);
  const angle = (place) => Math.atan2(dot(sub(place, middle), down), dot(sub(place, middle), right));
  return met.sort((one, other) => angle(one) - angle(other));
}

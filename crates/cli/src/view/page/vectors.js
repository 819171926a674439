// Positions and directions, as arrays of three numbers, and rotations, as quaternions.

export const add = (a, b) => a.map((value, axis) => value + b[axis]);
export const sub = (a, b) => a.map((value, axis) => value - b[axis]);
export const scale = (a, factor) => a.map((value) => value * factor);
export const dot = (a, b) => a.reduce((sum, value, axis) => sum + value * b[axis], 0);
export const cross = (a, b) => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0],
];
export const length = (a) => Math.hypot(...a);

/** Returns the rotation about a unit axis, in radians. */
export function about(axis, angle) {
  return [Math.cos(angle / 2), ...scale(axis, Math.sin(angle / 2))];
}

/** Returns one rotation followed by another. */
export function after(second, first) {
  const [a, ...u] = second;
  const [b, ...v] = first;
  const rest = add(add(scale(v, a), scale(u, b)), cross(u, v));
  return upright([a * b - dot(u, v), ...rest]);
}

/** Normalises a rotation; the identity for invalid input. */
export function upright(turn) {
  const size = Math.hypot(...turn);
  return size > 1e-9 && Number.isFinite(size) ? turn.map((part) => part / size) : [1, 0, 0, 0];
}

/** Rotates a direction. */
export function turned([w, ...u], direction) {
  const twice = scale(cross(u, direction), 2);
  return add(add(direction, scale(twice, w)), cross(u, twice));
}

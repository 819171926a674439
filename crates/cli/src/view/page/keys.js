// Keys: what each does, and the list of them.

import { VIEWS } from './state.js';

const TURN = Math.PI / 36;
const PAN_PIXELS = 30;

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Keys, what they are called, and what they do. */
const KEYS = [
  [['PageUp', ','], 'Page up ,', 'the slice before', (viewer) => viewer.state.step(viewer.active, -1)],
  [['PageDown', '.'], 'Page down .', 'the next slice', (viewer) => viewer.state.step(viewer.active, 1)],
  [['Home'], 'Home', 'the first slice', (viewer) => viewer.state.step(viewer.active, -1e9)],
  [['End'], 'End', 'the last slice', (viewer) => viewer.state.step(viewer.active, 1e9)],
  [['+', '='], '+', 'larger', (viewer) => viewer.zoom(1.25)],
  [['-', '_'], '−', 'smaller', (viewer) => viewer.zoom(0.8)],
  [['q', 'Q'], 'Q', 'roll the oblique slice to the left', (viewer) => roll(viewer, -TURN)],
  [['e', 'E'], 'E', 'roll the oblique slice to the right', (viewer) => roll(viewer, TURN)],
  [['['], '[', 'narrower window: more contrast', (viewer) => contrast(viewer, 0.85, 0)],
  [[']'], ']', 'wider window: less contrast', (viewer) => contrast(viewer, 1 / 0.85, 0)],
  [['b', 'B'], 'B', 'brighter', (viewer) => contrast(viewer, 1, -0.02)],
  [['d', 'D'], 'D', 'darker', (viewer) => contrast(viewer, 1, 0.02)],
  [['1'], '1 2 3 4', 'one view large, and small again', (viewer) => viewer.enlarge(VIEWS[0])],
  [['2'], '', '', (viewer) => viewer.enlarge(VIEWS[1])],
  [['3'], '', '', (viewer) => viewer.enlarge(VIEWS[2])],
  [['4'], '', '', (viewer) => viewer.enlarge(VIEWS[3])],
  [['0', 'Escape'], '0 Esc', 'all views alike', (viewer) => viewer.enlarge('')],
  [['i', 'I'], 'I', 'smooth, or voxels as they are', (viewer) => viewer.smooth()],
  [['l', 'L'], 'L', 'lines where slices meet', (viewer) => viewer.lines()],
  [['c', 'C'], 'C', 'to the middle of the volume', (viewer) => centre(viewer.state)],
  [['v', 'V'], 'V', 'the next volume', (viewer) => viewer.nextVolume()],
  [['s', 'S'], 'S', 'save the picture of the view', (viewer) => viewer.save()],
  [['u', 'U'], 'U', 'copy the address of this view', (viewer) => viewer.share()],
  [['r', 'R'], 'R', 'as it was in the beginning', (viewer) => viewer.reset()],
  [['?'], '?', 'this list', (viewer) => viewer.help()],
];

/** The list: keys and what they do. */
export const LIST = [
  ['Arrows', 'move in the view that is marked'],
  ['Shift+arrows', 'turn the oblique slice'],
  ['Ctrl+arrows', 'move the picture'],
  ['Tab', 'mark the next view'],
  ...KEYS.filter(([, name]) => name).map(([, name, what]) => [name, what]),
];

function centre(state) {
  state.moveTo(state.voxelAt(state.facts.centre));
}

function roll(viewer, angle) {
  viewer.state.turnAbout(viewer.state.frame('oblique').away, angle);
}

function contrast(viewer, factor, shift) {
  const { state } = viewer;
  const [low, high] = state.facts.pixel.range;
  state.setWindow(state.level + shift * (high - low), state.width * factor);
}

function arrow(viewer, event, [x, y]) {
  const { state, active } = viewer;
  if (event.shiftKey) {
    state.roll(-x * TURN, -y * TURN);
  } else if (event.ctrlKey) {
    state.pan(active, -x * PAN_PIXELS, -y * PAN_PIXELS, viewer.pixels(active));
  } else {
    const { right, down } = state.frame(active);
    const step = (axis) => state.at[axis] + (x * right[axis] + y * down[axis]) * state.facts.spacing[axis];
    state.moveTo([step(0), step(1), step(2)]);
  }
}

export function listenToKeys(viewer) {
  window.addEventListener('keydown', (event) => {
    if (event.target.closest('input, select, dialog')) return;
    const way = ARROWS[event.key];
    if (way && !event.altKey && !event.metaKey) {
      arrow(viewer, event, way);
    } else {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const known = KEYS.find(([keys]) => keys.includes(event.key));
      if (!known) return;
      known[3](viewer);
    }
    event.preventDefault();
    viewer.changed();
  });
}

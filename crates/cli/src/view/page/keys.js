// Keys, their actions, and the list of them.

import { VIEWS } from './state.js';

const TURN = Math.PI / 36;
const PAN_PIXELS = 30;

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Keys, their names, descriptions and actions. */
const KEYS = [
  [['PageUp', ','], 'Page up ,', 'the previous slice', (viewer) => viewer.state.step(viewer.active, -1)],
  [['PageDown', '.'], 'Page down .', 'the next slice', (viewer) => viewer.state.step(viewer.active, 1)],
  [['Home'], 'Home End', 'the first or the last slice', (viewer) => viewer.state.step(viewer.active, -1e9)],
  [['End'], '', '', (viewer) => viewer.state.step(viewer.active, 1e9)],
  [['+', '='], '+ −', 'larger, smaller', (viewer) => viewer.zoom(1.25)],
  [['-', '_'], '', '', (viewer) => viewer.zoom(0.8)],
  [['q', 'Q'], 'Q E', 'roll the oblique slice to the left, to the right', (viewer) => roll(viewer, -TURN)],
  [['e', 'E'], '', '', (viewer) => roll(viewer, TURN)],
  [['c', 'C'], 'C', 'to the centre of the volume', (viewer) => centre(viewer.state)],
  [['1'], '1 2 3 4', 'enlarge a view, or restore it', (viewer) => viewer.enlarge(VIEWS[0])],
  [['2'], '', '', (viewer) => viewer.enlarge(VIEWS[1])],
  [['3'], '', '', (viewer) => viewer.enlarge(VIEWS[2])],
  [['4'], '', '', (viewer) => viewer.enlarge(VIEWS[3])],
  [['0'], '0', 'all views alike', (viewer) => viewer.enlarge('')],
  [['['], '[ ]', 'narrower window, wider window', (viewer) => contrast(viewer, 0.85, 0)],
  [[']'], '', '', (viewer) => contrast(viewer, 1 / 0.85, 0)],
  [['b', 'B'], 'B D', 'brighter, darker', (viewer) => contrast(viewer, 1, -0.02)],
  [['d', 'D'], '', '', (viewer) => contrast(viewer, 1, 0.02)],
  [['a', 'A'], 'A', 'window from the values: 1st to 99th percentile', (viewer) => viewer.auto()],
  [['w', 'W'], 'W', 'the next named window', (viewer) => viewer.nextWindow()],
  [['m', 'M'], 'M', 'start or stop measuring a distance', (viewer) => viewer.measure()],
  [['Enter'], 'Enter', 'while measuring: an end of the distance, where all slices meet', (viewer) => viewer.measureHere()],
  [['Escape'], 'Esc', 'the distance away; then all views alike', (viewer) => viewer.escape()],
  [['i', 'I'], 'I', 'smooth, or voxels as they are', (viewer) => viewer.smooth()],
  [['l', 'L'], 'L', 'lines where slices meet', (viewer) => viewer.lines()],
  [['v', 'V'], 'V', 'the next volume', (viewer) => viewer.nextVolume()],
  [['s', 'S'], 'S', 'save all views as a PNG', (viewer) => viewer.screenshot()],
  [['p', 'P'], 'P', 'save the picture of the marked view alone', (viewer) => viewer.save()],
  [['u', 'U'], 'U', 'copy the address of this view', (viewer) => viewer.share()],
  [['r', 'R'], 'R', 'reset the page', (viewer) => viewer.reset()],
  [['?'], '?', 'this list', (viewer) => viewer.help()],
];

/** Keys that are handled elsewhere, for the list. */
export const LIST = [
  ['Arrows', 'move in the marked view'],
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
  state.setWindow(state.level + shift * state.span, state.width * factor);
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
    if (event.target.closest('input, select, dialog')) {
      // Return from a control to the view that receives keys and wheel.
      if (event.key === 'Escape' && !event.target.closest('dialog')) viewer.focusActive();
      return;
    }
    // These keys press buttons, and arrows turn the box.
    if (event.target.closest('button') && ['Enter', ' '].includes(event.key)) return;
    if (event.target.id === 'box' && ARROWS[event.key]) return;
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
    viewer.isSpoken = true;
    viewer.changed();
  });
}

// What is looked at: the volume, the place where all slices meet, and how the free one is turned.
// It can be written as the hash of an address and read from it.

import { about, add, after, cross, dot, length, scale, sub, turned, upright } from './vectors.js';

export const VIEWS = ['axial', 'coronal', 'sagittal', 'oblique'];

/** Orthogonal views: what is right and down, and along which axis they are stepped through. */
const FRAMES = {
  axial: { right: [1, 0, 0], down: [0, 1, 0], axis: 2 },
  coronal: { right: [1, 0, 0], down: [0, 0, 1], axis: 1 },
  sagittal: { right: [0, 1, 0], down: [0, 0, 1], axis: 0 },
};

const ZOOMS = [0.25, 64];

/** The oblique slice at first: a coronal one, leaning back and turned to the side. */
const FIRST_TURN = after(about([0, 0, 1], -0.35), about([1, 0, 0], 1.25));

export class State {
  constructor(facts) {
    this.facts = facts;
    this.size = facts.shape.map((voxels, axis) => voxels * facts.spacing[axis]);
    this.last = facts.shape.map((voxels, axis) => (voxels - 1) * facts.spacing[axis]);
    this.fine = Math.min(...facts.spacing);
    this.isGrey = facts.pixel.channels < 3;
    this.values = facts.values;
    this.big = '';
    this.hasLines = true;
    this.reset();
  }

  reset() {
    this.at = this.voxelAt(this.facts.centre);
    this.eye = [...this.facts.centre];
    this.zoom = 1;
    this.turn = FIRST_TURN;
    [this.low, this.high] = this.facts.window;
    this.isOwnWindow = false;
    this.isSmooth = true;
  }

  /** What values there are has become known; a window that nobody has chosen follows them. */
  learn({ values, window }) {
    this.values = values;
    this.facts.window = window;
    if (!this.isOwnWindow) [this.low, this.high] = window;
  }

  /** The values that there are, as far as they are known: what sliders reach over. */
  get range() {
    const { minimum, maximum } = this.values ?? {};
    if (minimum === undefined) return this.facts.pixel.range;
    return minimum < maximum ? [minimum, maximum] : [minimum - 0.5, maximum + 0.5];
  }

  /** How far these values are apart. */
  get span() {
    const [low, high] = this.range;
    return high - low;
  }

  /** The smallest change of a window: 1 for whole numbers, otherwise about a thousandth. */
  get windowStep() {
    return this.facts.pixel.sample === 'f32' ? 10 ** (Math.floor(Math.log10(this.span)) - 3) : 1;
  }

  /** The voxel that is nearest to a place, by its numbers; nothing if there is none. */
  voxelOf(place) {
    const voxel = place.map((value, axis) => Math.round(value / this.facts.spacing[axis]));
    const isThere = voxel.every((number, axis) => number >= 0 && number < this.facts.shape[axis]);
    return isThere ? voxel.map((number) => number + 0) : null;
  }

  /** Right, down and away of a view, each of length 1. */
  frame(view) {
    const fixed = FRAMES[view];
    // What an address says is rounded, and stays so that the address stays the same.
    const turn = upright(this.turn);
    const right = fixed ? fixed.right : turned(turn, [1, 0, 0]);
    const down = fixed ? fixed.down : turned(turn, [0, 1, 0]);
    return { right, down, away: cross(right, down) };
  }

  /** The voxel that is nearest to a place. */
  voxelAt(place) {
    return place.map((value, axis) => Math.round(value / this.facts.spacing[axis]) * this.facts.spacing[axis]);
  }

  /**
   * The middle of a view: on its slice, as near to the eye as can be. Orthogonal slices are layers of
   * voxels: nothing between two of them has to be mixed.
   */
  middle(view) {
    const { away } = this.frame(view);
    const on = view === 'oblique' ? this.at : this.voxelAt(this.at);
    return add(this.eye, scale(away, dot(sub(on, this.eye), away)));
  }

  /** Pixels per unit of the world, in a view of so many pixels. */
  pixels(view, width, height) {
    const { right, down } = this.frame(view);
    const largest = Math.max(...this.size) * 1.1;
    const reach = (direction) =>
      view === 'oblique' ? largest : dot(direction.map(Math.abs), this.size);
    return this.zoom * 0.94 * Math.min(width / reach(right), height / reach(down));
  }

  /** The place in the world of a point of a view, counted in pixels from its middle. */
  place(view, x, y, pixels) {
    const { right, down } = this.frame(view);
    return add(this.middle(view), add(scale(right, x / pixels), scale(down, y / pixels)));
  }

  /** Where a place of the world is in a view. */
  point(view, place, pixels) {
    const { right, down } = this.frame(view);
    const way = sub(place, this.middle(view));
    return [dot(way, right) * pixels, dot(way, down) * pixels];
  }

  /** All slices go through a place, as far as it is in the volume. */
  moveTo(place) {
    this.at = place.map((value, axis) => Math.min(Math.max(value, 0), this.last[axis]));
  }

  /** To the next slice of a view, or some further. */
  step(view, count) {
    const axis = FRAMES[view]?.axis;
    const way = axis === undefined ? scale(this.frame(view).away, this.fine) : [0, 0, 0];
    if (axis !== undefined) way[axis] = this.facts.spacing[axis];
    this.moveTo(add(this.at, scale(way, count)));
  }

  /** Moves the picture of a view. */
  pan(view, x, y, pixels) {
    const { right, down } = this.frame(view);
    const way = add(scale(right, -x / pixels), scale(down, -y / pixels));
    const reach = Math.max(...this.size);
    this.eye = add(this.eye, way).map((value, axis) =>
      Math.min(Math.max(value, -reach), this.last[axis] + reach),
    );
  }

  /** Larger or smaller, so that a point of a view stays where it is. */
  zoomBy(factor, view, x, y, pixels) {
    const before = this.zoom;
    this.zoom = Math.min(Math.max(before * factor, ZOOMS[0]), ZOOMS[1]);
    const share = 1 - before / this.zoom;
    this.pan(view, -x * share, -y * share, pixels);
  }

  /** Turns the oblique slice about a direction of the world. */
  turnAbout(direction, angle) {
    const size = length(direction);
    this.turn = after(about(scale(direction, 1 / size), angle), upright(this.turn));
  }

  /** Turns the oblique slice as if its picture were rolled by a hand. */
  roll(x, y) {
    const { right, down } = this.frame('oblique');
    this.turnAbout(down, -x);
    this.turnAbout(right, y);
  }

  get level() {
    return (this.low + this.high) / 2;
  }

  get width() {
    return this.high - this.low;
  }

  setWindow(level, width) {
    const half = Math.max(width, this.windowStep) / 2;
    this.showValues(level - half, level + half);
  }

  /** Shows these values from black to white. */
  showValues(low, high) {
    [this.low, this.high] = [low, high];
    this.isOwnWindow = true;
  }

  /** What an address needs to show the same. */
  toHash() {
    const short = (values, digits) => values.map((value) => +value.toFixed(digits)).join(',');
    const parts = [
      ['volume', this.facts.number],
      ['at', short(this.at, 3)],
      ['eye', short(this.eye, 3)],
      ['zoom', +this.zoom.toFixed(4)],
      ['turn', short(this.turn, 5)],
      ['smooth', this.isSmooth ? 1 : 0],
    ];
    if (this.isOwnWindow || this.values) {
      parts.push(['window', [this.low, this.high].map((value) => +value.toPrecision(7)).join(',')]);
    }
    if (this.big) parts.push(['big', this.big]);
    return `#${parts.map(([name, value]) => `${name}=${value}`).join('&')}`;
  }

  /** Takes what an address says, and leaves what it does not say or says wrongly. */
  fromHash(hash) {
    const said = new URLSearchParams(hash.replace(/^#/, ''));
    const numbers = (name, count) => {
      const values = (said.get(name) ?? '').split(',').map(Number.parseFloat);
      return values.length === count && values.every(Number.isFinite) ? values : null;
    };
    const [at, eye, turn] = [numbers('at', 3), numbers('eye', 3), numbers('turn', 4)];
    const [zoom, window] = [numbers('zoom', 1), numbers('window', 2)];
    if (at) this.moveTo(at);
    if (eye) this.eye = eye;
    if (turn) this.turn = turn;
    if (zoom && zoom[0] > 0) this.zoom = Math.min(Math.max(zoom[0], ZOOMS[0]), ZOOMS[1]);
    if (window && window[0] < window[1]) this.showValues(...window);
    if (said.has('smooth')) this.isSmooth = said.get('smooth') !== '0';
    this.big = VIEWS.includes(said.get('big')) ? said.get('big') : '';
  }

  /** The number of the volume that an address means. */
  static volumeOf(hash) {
    const number = Number.parseInt(new URLSearchParams(hash.replace(/^#/, '')).get('volume'), 10);
    return Number.isInteger(number) && number >= 0 ? number : 0;
  }
}

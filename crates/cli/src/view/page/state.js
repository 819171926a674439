// The state of the page: the volume, the point where all slices meet, and the orientation of the
// oblique slice. It is written to and read from the hash of the address.

import { about, add, after, cross, dot, length, scale, sub, turned, upright } from './vectors.js';

export const VIEWS = ['axial', 'coronal', 'sagittal', 'oblique'];

/** Orthogonal views: right, down, and the axis that they step along. */
const FRAMES = {
  axial: { right: [1, 0, 0], down: [0, 1, 0], axis: 2 },
  coronal: { right: [1, 0, 0], down: [0, 0, 1], axis: 1 },
  sagittal: { right: [0, 1, 0], down: [0, 0, 1], axis: 0 },
};

const ZOOMS = [0.25, 64];

/** Initial oblique slice: a coronal one, leaning back and turned to the side. */
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

  /** Sets the range of values once it is known; the default window follows it. */
  learn({ values, window }) {
    this.values = values;
    this.facts.window = window;
    if (!this.isOwnWindow) [this.low, this.high] = window;
  }

  /** Returns the known range of values, which the sliders cover. */
  get range() {
    const { minimum, maximum } = this.values ?? {};
    if (minimum === undefined) return this.facts.pixel.range;
    return minimum < maximum ? [minimum, maximum] : [minimum - 0.5, maximum + 0.5];
  }

  /** Returns the width of that range. */
  get span() {
    const [low, high] = this.range;
    return high - low;
  }

  /** Returns the smallest change of a window: 1 for integers, otherwise about a thousandth. */
  get windowStep() {
    return this.facts.pixel.sample === 'f32' ? 10 ** (Math.floor(Math.log10(this.span)) - 3) : 1;
  }

  /** Returns the index of the voxel nearest to a position; null outside the volume. */
  voxelOf(place) {
    const voxel = place.map((value, axis) => Math.round(value / this.facts.spacing[axis]));
    const isThere = voxel.every((number, axis) => number >= 0 && number < this.facts.shape[axis]);
    return isThere ? voxel.map((number) => number + 0) : null;
  }

  /** Returns the unit vectors right, down and forward of a view. */
  frame(view) {
    const fixed = FRAMES[view];
    // An address holds rounded numbers; keep them, so that the address stays the same.
    const turn = upright(this.turn);
    const right = fixed ? fixed.right : turned(turn, [1, 0, 0]);
    const down = fixed ? fixed.down : turned(turn, [0, 1, 0]);
    return { right, down, away: cross(right, down) };
  }

  /** Returns the position of the voxel nearest to a position. */
  voxelAt(place) {
    return place.map((value, axis) => Math.round(value / this.facts.spacing[axis]) * this.facts.spacing[axis]);
  }

  /**
   * Returns the centre of a view: the point of its slice nearest to the eye. Orthogonal slices are
   * layers of voxels, so that no interpolation is needed across them.
   */
  middle(view) {
    const { away } = this.frame(view);
    const on = view === 'oblique' ? this.at : this.voxelAt(this.at);
    return add(this.eye, scale(away, dot(sub(on, this.eye), away)));
  }

  /** Returns pixels per unit of the world, in a view of a given size. */
  pixels(view, width, height) {
    const { right, down } = this.frame(view);
    const largest = Math.max(...this.size) * 1.1;
    const reach = (direction) =>
      view === 'oblique' ? largest : dot(direction.map(Math.abs), this.size);
    return this.zoom * 0.94 * Math.min(width / reach(right), height / reach(down));
  }

  /** Returns the position of a point of a view, given in pixels from its centre. */
  place(view, x, y, pixels) {
    const { right, down } = this.frame(view);
    return add(this.middle(view), add(scale(right, x / pixels), scale(down, y / pixels)));
  }

  /** Returns the point of a view at a position. */
  point(view, place, pixels) {
    const { right, down } = this.frame(view);
    const way = sub(place, this.middle(view));
    return [dot(way, right) * pixels, dot(way, down) * pixels];
  }

  /** Moves all slices through a position, limited to the volume. */
  moveTo(place) {
    this.at = place.map((value, axis) => Math.min(Math.max(value, 0), this.last[axis]));
  }

  /** Steps to another slice of a view. */
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

  /** Zooms, and keeps a point of a view in place. */
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

  /** Turns the oblique slice as if a hand rolled its picture. */
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

  /** Returns the hash that shows the same state. */
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

  /** Reads a hash; missing and invalid parts leave the state unchanged. */
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

  /** Returns the number of the volume in a hash. */
  static volumeOf(hash) {
    const number = Number.parseInt(new URLSearchParams(hash.replace(/^#/, '')).get('volume'), 10);
    return Number.isInteger(number) && number >= 0 ? number : 0;
  }
}

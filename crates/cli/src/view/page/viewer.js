// The page: four views of one state, a box, and a panel.

import { Box } from './box.js';
import { GESTURES, listen, listenToBox } from './gestures.js';
import { LIST, listenToKeys } from './keys.js';
import { lengthsText, lengthText } from './lengths.js';
import { Measure } from './measure.js';
import { drawOverlay } from './overlay.js';
import { positionText, valuesText, VoxelReader } from './readout.js';
import { pictureOf } from './screenshot.js';
import { Slices } from './slices.js';
import { State } from './state.js';
import { valueText, WindowControls } from './windowing.js';

/** Time without changes after which the page counts as still, in milliseconds. */
const STILL = 140;
/** Delay before a retry after a failure. */
const AGAIN = 1500;

const find = (id) => document.getElementById(id);
const phone = window.matchMedia('(max-width: 760px)');
const light = window.matchMedia('(prefers-color-scheme: light)');

/** Sends a request; the browser adds the cookie that the server has set for the token. */
async function ask(path, signal) {
  const response = await fetch(path, { signal, cache: 'no-store' });
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  const error = new Error(told.error ?? `the server answered ${response.status}`);
  error.status = response.status;
  throw error;
}

class Viewer {
  constructor(volumes) {
    this.volumes = volumes;
    this.active = 'axial';
    this.views = new Map();
    this.box = new Box(find('box'));
    this.distance = new Measure();
    this.window = new WindowControls(this, find);
    this.hovered = null;
    this.cursor = new VoxelReader('cursor', ask, () => this.tellCursor());
    this.focus = new VoxelReader('focus', ask, () => this.tell());
    for (const element of document.querySelectorAll('.view')) this.addView(element);
    listenToBox(this, this.box, find('box'));
    listenToKeys(this);
    this.listenToPanel();
    new ResizeObserver(() => this.changed()).observe(find('views'));
    window.addEventListener('hashchange', () => this.fromAddress());
    phone.addEventListener('change', () => this.changed());
    light.addEventListener('change', () => this.changed());
  }

  addView(element) {
    const { view } = element.dataset;
    const make = (tag, name, parent = element) => {
      const child = document.createElement(tag);
      child.className = name;
      parent.append(child);
      return child;
    };
    const [bar, stage, below] = [make('div', 'bar'), make('div', 'stage'), make('div', 'below')];
    const [picture, lines] = [make('canvas', 'picture', stage), make('canvas', 'lines', stage)];
    const title = make('button', 'title', bar);
    title.type = 'button';
    title.tabIndex = -1;
    title.textContent = view[0].toUpperCase() + view.slice(1);
    title.title = 'Enlarge';
    title.addEventListener('click', () => this.enlarge(view));
    const slices = new Slices(view, picture, ask, (...heard) => this.heard(...heard));
    const where = make('p', 'where', bar);
    const [readout, cost] = [make('p', 'readout', below), make('p', 'cost', below)];
    this.views.set(view, { element, stage, lines, where, readout, cost, slices });
    element.addEventListener('focus', () => this.activate(view));
    stage.addEventListener('pointerenter', (event) => {
      if (event.pointerType === 'mouse' && event.buttons === 0) this.activate(view);
    });
    listen(this, view, element, stage);
  }

  async open(number) {
    const response = await ask(`api/volumes/${number}`);
    for (const { slices } of this.views.values()) slices.stop();
    const state = new State(await response.json());
    if (this.state) state.big = this.state.big;
    this.state = state;
    this.distance.clear();
    this.cursor.forget();
    this.focus.forget();
    this.describe();
    this.isWaitingForValues = !state.values && state.facts.pixel.channels === 1;
    if (this.isWaitingForValues) this.waitForValues(state);
  }

  /** Requests the range of values, if the header does not record it: the nodes read all voxels, once. */
  async waitForValues(state) {
    this.say('The header of this volume has no percentiles: the nodes compute them…', true);
    try {
      const response = await ask(`api/volumes/${state.facts.number}/values`);
      const found = await response.json();
      if (state !== this.state) return;
      state.learn(found);
      find('notice').hidden = true;
    } catch (error) {
      if (state !== this.state) return;
      this.say(error.message);
    }
    this.isWaitingForValues = false;
    this.describe();
    this.changed();
  }

  /** Shows the state in the address. */
  async fromAddress() {
    if (this.state && location.hash === this.state.toHash()) return;
    const number = Math.min(State.volumeOf(location.hash), this.volumes.length - 1);
    if (number !== this.state?.facts.number) await this.open(number);
    this.state.fromHash(location.hash);
    this.changed();
  }

  describe() {
    const { facts } = this.state;
    const { sample, channels } = facts.pixel;
    find('name').textContent = facts.name;
    document.title = `${facts.name} – Pario viewer`;
    const { lengths, values } = facts.units;
    const found = this.state.values;
    const from = found && [found.minimum, found.maximum].map((value) => valueText(this.state, value));
    find('facts').textContent = [
      facts.shape.join(' × '),
      channels > 1 ? `${channels} × ${sample}` : sample,
      ...(lengths ? [lengthsText(facts.spacing, facts, ' × ')] : []),
      ...(from ? [[`values ${from[0]} to ${from[1]}`, values].filter(Boolean).join(' ')] : []),
    ].join(' · ');
    find('volume').value = facts.number;
    this.window.describe();
  }

  /** Handles a movement: coarse pictures now, sharp ones when it is still. */
  changed() {
    if (!this.state) return;
    if (!this.isDrawn) {
      this.isDrawn = true;
      requestAnimationFrame(() => this.draw());
    }
    clearTimeout(this.still);
    this.still = setTimeout(() => this.settle(), STILL);
  }

  draw() {
    this.isDrawn = false;
    this.arrange();
    for (const { slices } of this.views.values()) slices.show(this.state, false);
    this.mark();
  }

  /** Draws everything but the pictures. */
  mark() {
    for (const [view, { lines, where }] of this.views) {
      drawOverlay(lines, view, this.state, this.distance);
      where.textContent = this.where(view);
    }
    this.focus.want(this.state, this.state.voxelOf(this.state.at));
    this.tell();
    this.tellCursor();
    this.box.draw(this.state, this.views.get('oblique').slices);
  }

  /** Handles stillness: requests sharp pictures and updates the address. */
  settle() {
    clearTimeout(this.still);
    this.arrange();
    this.mark();
    for (const { slices } of this.views.values()) slices.show(this.state, true);
    const hash = this.state.toHash();
    if (location.hash !== hash) history.replaceState(null, '', hash);
    this.speak();
  }

  /** Announces the effect of keys to screen readers. */
  speak() {
    if (!this.isSpoken) return;
    this.isSpoken = false;
    const distance = this.distance.text(this.state);
    const where = ['sagittal', 'coronal', 'axial'].map((view) => this.where(view)).join(', ');
    find('spoken').textContent = distance ? `${where}; distance ${distance}` : where;
  }

  /** Handles a picture or an error. */
  heard(view, figures, error) {
    const { cost } = this.views.get(view);
    if (figures) {
      const { milliseconds, bytes, extents, hits } = figures;
      const time = `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
      const all = `${time} · ${amount(bytes)} · ${extents} extents · ${hits} cached`;
      cost.textContent = all;
      cost.title = all;
      if (this.isFailing) find('notice').hidden = true;
      this.isFailing = false;
      if (view === 'oblique') this.box.draw(this.state, this.views.get(view).slices);
      return;
    }
    if (error.status === 409) return;
    if (error.status === 401) {
      askForToken();
      return;
    }
    this.isFailing = true;
    this.say(error.status ? error.message : 'The viewer does not answer', true);
    clearTimeout(this.again);
    this.again = setTimeout(() => this.settle(), AGAIN);
  }

  where(view) {
    const { at, facts } = this.state;
    const axis = { sagittal: 0, coronal: 1, axial: 2 }[view];
    if (axis === undefined) {
      const { away } = this.state.frame(view);
      return `normal ${away.map((value) => value.toFixed(2)).join(' ')}`;
    }
    const voxel = Math.round(at[axis] / facts.spacing[axis]);
    return `${'xyz'[axis]} ${voxel} / ${facts.shape[axis] - 1}`;
  }

  /** Shows the point where all slices meet in the panel. */
  tell() {
    const { state } = this;
    const { spacing, units } = state.facts;
    const rows = ['sagittal', 'coronal', 'axial'].map((view, axis) => {
      const voxel = `voxel ${Math.round(state.at[axis] / spacing[axis])}`;
      const place = lengthOf(state.at[axis], units.lengths);
      return [view, 'xyz'[axis], ...(place ? [voxel, place] : [voxel])];
    });
    const voxel = state.voxelOf(state.at);
    const values = voxel ? this.focus.valuesOf(state, voxel) : null;
    rows.push(['', 'value', valuesText(state, values)]);
    rows.push(['', 'zoom', `${state.zoom.toFixed(2)} ×`]);
    const distance = this.distance.text(state);
    if (distance) rows.push(['', 'distance', distance]);
    find('place').replaceChildren(
      ...rows.flatMap(([view, name, ...said]) => {
        const term = document.createElement('dt');
        term.textContent = name;
        if (view) term.dataset.view = view;
        const texts = said.map((text, at) => {
          const one = document.createElement('dd');
          one.textContent = text;
          one.className = said.length === 1 ? 'wide' : ['index', ''][at];
          return one;
        });
        return [term, ...texts];
      }),
    );
    this.window.draw();
    find('smooth').setAttribute('aria-pressed', state.isSmooth);
    find('lines').setAttribute('aria-pressed', state.hasLines);
    find('measure').setAttribute('aria-pressed', this.distance.isOn);
  }

  /** Handles the cursor at a point of a view, or outside it. */
  hover(view, place) {
    if (!this.state) return;
    this.hovered = place && { view, place };
    const { distance } = this;
    if (place && distance.isOn && distance.points.length === 1) {
      distance.loose = place;
      for (const [name, { lines }] of this.views) drawOverlay(lines, name, this.state, distance);
      this.tell();
    }
    this.cursor.want(this.state, place && this.state.voxelOf(place));
    this.tellCursor();
  }

  /** Shows the voxel under the cursor in the views. */
  tellCursor() {
    for (const [view, { readout }] of this.views) {
      let text = '';
      if (this.hovered?.view === view) {
        const voxel = this.state.voxelOf(this.hovered.place);
        const values = voxel && this.cursor.valuesOf(this.state, voxel);
        text = voxel
          ? `${positionText(this.state, voxel)} · ${valuesText(this.state, values)}`
          : 'outside of the volume';
      }
      readout.textContent = text;
      readout.title = text;
    }
  }

  /** Enlarges one view, or shows all alike; a phone always has a large one. */
  arrange() {
    const big = this.state.big || (phone.matches ? 'oblique' : '');
    const views = find('views');
    if (big) views.dataset.big = big;
    else delete views.dataset.big;
    for (const [view, { element }] of this.views) {
      element.classList.toggle('big', view === big);
      element.classList.toggle('active', view === this.active);
    }
  }

  /**
   * Directs keys and the wheel to a view. Also focuses the view, unless a control of the panel has
   * the focus, so that the marked view is the one that keys move.
   */
  activate(view) {
    const { element } = this.views.get(view);
    const focused = document.activeElement;
    if (focused === document.body || (focused !== element && focused?.closest('.view'))) {
      element.focus({ preventScroll: true });
    }
    if (this.active === view) return;
    this.active = view;
    if (this.state) this.arrange();
  }

  focusActive() {
    this.views.get(this.active).element.focus({ preventScroll: true });
  }

  enlarge(view) {
    this.state.big = this.state.big === view ? '' : view;
    if (view) this.activate(view);
    this.changed();
  }

  pixels(view) {
    const { stage } = this.views.get(view);
    return this.state.pixels(view, stage.clientWidth, stage.clientHeight);
  }

  zoom(factor) {
    this.state.zoomBy(factor, this.active, 0, 0, this.pixels(this.active));
  }

  smooth() {
    this.state.isSmooth = !this.state.isSmooth;
    this.changed();
  }

  lines() {
    this.state.hasLines = !this.state.hasLines;
    this.changed();
  }

  auto() {
    this.window.choose('auto');
  }

  nextWindow() {
    if (this.state.isGrey) this.window.next();
  }

  /** Starts measuring, or ends it and removes the distance. */
  measure() {
    this.distance.isOn = !this.distance.isOn;
    this.distance.clear();
    if (this.distance.isOn) {
      this.say('Two clicks measure a distance, or Enter at two places; Esc ends it');
    }
    this.changed();
  }

  measureAt(place) {
    this.distance.add(place);
    this.changed();
  }

  measureHere() {
    if (this.distance.isOn) this.measureAt([...this.state.at]);
  }

  escape() {
    if (this.distance.isOn || this.distance.points.length > 0) {
      this.distance.isOn = false;
      this.distance.clear();
      this.changed();
    } else {
      this.enlarge('');
    }
  }

  reset() {
    this.state.reset();
    this.distance.isOn = false;
    this.distance.clear();
    this.box.reset();
    this.changed();
  }

  async nextVolume() {
    if (this.volumes.length < 2) return;
    await this.open((this.state.facts.number + 1) % this.volumes.length);
    this.changed();
  }

  save() {
    const { slices } = this.views.get(this.active);
    download(slices.canvas, `${this.state.facts.name}-${this.active}.png`);
  }

  /** Saves all views as they are seen, with their scale bars. */
  screenshot() {
    const { state } = this;
    const shown = [state.low, state.high].map((value) => valueText(state, value)).join(' to ');
    const caption = [
      state.facts.path,
      positionText(state, state.voxelOf(state.at)),
      ...(state.isGrey ? [['window', shown, state.facts.units.values].filter(Boolean).join(' ')] : []),
    ];
    download(pictureOf(find('views'), caption.join('   ')), `${state.facts.name}.png`);
  }

  async share() {
    this.settle();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say('The address of this view is copied');
    } catch {
      this.say(location.href);
    }
  }

  help() {
    if (!find('keys').open) find('keys').showModal();
  }

  say(text, stays = false) {
    const notice = find('notice');
    notice.textContent = text;
    notice.hidden = false;
    clearTimeout(this.silence);
    if (!stays) this.silence = setTimeout(() => (notice.hidden = true), 2500);
  }

  listenToPanel() {
    const choice = find('volume');
    choice.hidden = this.volumes.length < 2;
    find('name').classList.toggle('unseen', this.volumes.length > 1);
    choice.append(...this.volumes.map(({ number, path }) => new Option(path, number)));
    choice.addEventListener('change', async () => {
      await this.open(Number(choice.value));
      this.changed();
    });
    for (const id of ['smooth', 'lines', 'measure', 'screenshot', 'reset', 'share', 'help']) {
      find(id).addEventListener('click', () => this[id]());
    }
    const keys = (text) =>
      text.split(/ (?!up|down)/).flatMap((part, at) => {
        const key = document.createElement('kbd');
        key.textContent = part;
        return at > 0 ? [' ', key] : [key];
      });
    const fill = (id, list, shape) =>
      list.forEach(([name, what]) => {
        const row = find(id).insertRow();
        const head = document.createElement('th');
        head.scope = 'row';
        head.append(...shape(name));
        row.append(head);
        row.insertCell().textContent = what;
      });
    const half = Math.ceil(LIST.length / 2);
    fill('key-table', LIST.slice(0, half), keys);
    fill('more-keys', LIST.slice(half), keys);
    fill('gesture-table', GESTURES, (name) => [name]);
  }
}

/** Formats a length along an axis; empty if its unit is unknown. */
function lengthOf(value, unit) {
  return unit ? lengthText(value, unit) : '';
}

/** Saves a canvas as a PNG. */
function download(canvas, name) {
  canvas.toBlob((blob) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

function amount(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function askForToken() {
  const dialog = find('token');
  if (dialog.open) return;
  dialog.addEventListener('close', () => {
    const query = new URLSearchParams({ token: find('token-text').value.trim() });
    location.replace(`?${query}${location.hash}`);
  });
  dialog.showModal();
}

async function begin() {
  try {
    const { volumes } = await (await ask('api/volumes')).json();
    const viewer = new Viewer(volumes);
    window.viewer = viewer;
    await viewer.fromAddress();
  } catch (error) {
    if (error.status === 401) askForToken();
    else {
      find('notice').textContent = error.message;
      find('notice').hidden = false;
    }
  }
}

begin();

// The page: four views of one state, a box, and a panel.

import { Box } from './box.js';
import { GESTURES, listen, listenToBox } from './gestures.js';
import { LIST, listenToKeys } from './keys.js';
import { drawLines } from './overlay.js';
import { Slices } from './slices.js';
import { State, VIEWS } from './state.js';

/** So long nothing must change until it counts as still, in milliseconds. */
const STILL = 140;
/** After a failure it is tried again. */
const AGAIN = 1500;

const find = (id) => document.getElementById(id);
const phone = window.matchMedia('(max-width: 760px)');

/** Asks the server; the browser adds the cookie that the server has set for the token. */
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
    for (const element of document.querySelectorAll('.view')) this.addView(element);
    listenToBox(this, this.box, find('box'));
    listenToKeys(this);
    this.listenToPanel();
    new ResizeObserver(() => this.changed()).observe(find('views'));
    window.addEventListener('hashchange', () => this.fromAddress());
    phone.addEventListener('change', () => this.changed());
  }

  addView(element) {
    const { view } = element.dataset;
    const make = (tag, name) => {
      const child = document.createElement(tag);
      child.className = name;
      element.append(child);
      return child;
    };
    const [picture, lines] = [make('canvas', 'picture'), make('canvas', 'lines')];
    const title = make('button', 'title');
    title.type = 'button';
    title.tabIndex = -1;
    title.textContent = view[0].toUpperCase() + view.slice(1);
    title.title = 'Make it large';
    title.addEventListener('click', () => this.enlarge(view));
    const slices = new Slices(view, picture, ask, (...heard) => this.heard(...heard));
    const [where, cost] = [make('p', 'where'), make('p', 'cost')];
    this.views.set(view, { element, lines, where, cost, slices });
    element.addEventListener('focus', () => this.activate(view));
    element.addEventListener('pointerenter', (event) => {
      if (event.pointerType === 'mouse' && event.buttons === 0) this.activate(view);
    });
    listen(this, view, element);
  }

  async open(number) {
    const response = await ask(`api/volumes/${number}`);
    for (const { slices } of this.views.values()) slices.stop();
    const state = new State(await response.json());
    if (this.state) state.big = this.state.big;
    this.state = state;
    this.describe();
  }

  /** Shows what the address says. */
  async fromAddress() {
    if (this.state && location.hash === this.state.toHash()) return;
    const number = Math.min(State.volumeOf(location.hash), this.volumes.length - 1);
    if (number !== this.state?.facts.number) await this.open(number);
    this.state.fromHash(location.hash);
    this.changed();
  }

  describe() {
    const { facts } = this.state;
    const { sample, channels, range } = facts.pixel;
    const trimmed = (value) => +value.toPrecision(4);
    find('name').textContent = facts.name;
    document.title = `${facts.name} – Pario viewer`;
    const spacing = new Set(facts.spacing).size > 1 || facts.spacing[0] !== 1;
    find('facts').textContent = [
      facts.shape.join(' × '),
      channels > 1 ? `${channels} × ${sample}` : sample,
      ...(spacing ? [`spacing ${facts.spacing.map(trimmed).join(' × ')}`] : []),
    ].join(' · ');
    find('volume').value = facts.number;
    find('window').hidden = !this.state.isGrey;
    const step = sample === 'f32' ? (range[1] - range[0]) / 1000 : 1;
    Object.assign(find('level'), { min: range[0], max: range[1], step });
    Object.assign(find('width'), { min: step, max: range[1] - range[0], step });
  }

  /** Something moved: coarse pictures now, sharp ones when it is still. */
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

  /** All but the pictures. */
  mark() {
    for (const [view, { lines, where }] of this.views) {
      drawLines(lines, view, this.state);
      where.textContent = this.where(view);
    }
    this.tell();
    this.box.draw(this.state, this.views.get('oblique').slices);
  }

  /** It is still: everything sharp, and the address says what is seen. */
  settle() {
    clearTimeout(this.still);
    this.arrange();
    this.mark();
    for (const { slices } of this.views.values()) slices.show(this.state, true);
    const hash = this.state.toHash();
    if (location.hash !== hash) history.replaceState(null, '', hash);
  }

  /** A picture has come, or something went wrong. */
  heard(view, figures, error) {
    const { cost } = this.views.get(view);
    if (figures) {
      const { milliseconds, bytes, extents, hits } = figures;
      const time = `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
      const all = `${time} · ${amount(bytes)} · ${extents} extents · ${hits} cached`;
      cost.textContent = this.views.get(view).element.clientWidth < 240 ? time : all;
      cost.title = all;
      find('notice').hidden = true;
      if (view === 'oblique') this.box.draw(this.state, this.views.get(view).slices);
      return;
    }
    if (error.status === 409) return;
    if (error.status === 401) {
      askForToken();
      return;
    }
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

  /** What the panel says. */
  tell() {
    const { state } = this;
    const rows = ['sagittal', 'coronal', 'axial'].map((view, axis) => {
      const place = state.at[axis];
      const voxel = Math.round(place / state.facts.spacing[axis]);
      return [view, 'xyz'[axis], `voxel ${voxel}`, place.toFixed(1)];
    });
    rows.push(['', 'zoom', '', `${state.zoom.toFixed(2)} ×`]);
    const place = find('place');
    place.replaceChildren(
      ...rows.flatMap(([view, name, voxel, value]) => {
        const [term, first, second] = ['dt', 'dd', 'dd'].map((tag) => document.createElement(tag));
        term.textContent = name;
        if (view) term.style.setProperty('--hue', `var(--${view})`);
        first.textContent = voxel;
        second.textContent = value;
        second.className = 'unit';
        return [term, first, second];
      }),
    );
    const shown = (value) => (state.facts.pixel.sample === 'f32' ? value.toFixed(3) : Math.round(value));
    find('level').value = state.level;
    find('width').value = state.width;
    find('level-value').textContent = shown(state.level);
    find('width-value').textContent = shown(state.width);
    find('smooth').setAttribute('aria-pressed', state.isSmooth);
    find('lines').setAttribute('aria-pressed', state.hasLines);
  }

  /** One view large, or all alike; a phone always has a large one. */
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

  activate(view) {
    if (this.active === view) return;
    this.active = view;
    if (this.state) this.arrange();
  }

  enlarge(view) {
    this.state.big = this.state.big === view ? '' : view;
    if (view) this.activate(view);
    this.changed();
  }

  pixels(view) {
    const { element } = this.views.get(view);
    return this.state.pixels(view, element.clientWidth, element.clientHeight);
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

  reset() {
    this.state.reset();
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
    slices.canvas.toBlob((blob) => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = `${this.state.facts.name}-${this.active}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
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
    find('name').hidden = this.volumes.length > 1;
    choice.append(...this.volumes.map(({ number, path }) => new Option(path, number)));
    choice.addEventListener('change', async () => {
      await this.open(Number(choice.value));
      this.changed();
    });
    for (const id of ['level', 'width']) {
      find(id).addEventListener('input', () => {
        this.state.setWindow(Number(find('level').value), Number(find('width').value));
        this.changed();
      });
    }
    for (const id of ['smooth', 'lines', 'reset', 'share', 'help']) {
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
        row.insertCell().append(...shape(name));
        row.insertCell().textContent = what;
      });
    fill('key-table', LIST, keys);
    fill('gesture-table', GESTURES, (name) => [name]);
  }
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

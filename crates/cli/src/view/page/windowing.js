// The window: the values shown from black to white, its controls, and named windows.

/** Level and width of windows for CT, in Hounsfield units. */
const CT = [
  ['bone', 'Bone', 400, 1800],
  ['lung', 'Lung', -600, 1500],
  ['soft', 'Soft tissue', 40, 400],
  ['brain', 'Brain', 40, 80],
];

/** Returns whether values are, or could be, Hounsfield units: air and bone occur. */
function isLikeCt({ facts, values }) {
  if (facts.units.values === 'HU') return true;
  return !!values && values.minimum <= -500 && values.minimum >= -8192 && values.maximum >= 200;
}

/** Returns all named windows: key, name, low, high. */
export function presets(state) {
  const named = [
    ['auto', '1–99 % of the values', ...state.facts.window],
    ['full', 'Full range', ...state.range],
  ];
  if (!isLikeCt(state)) return named;
  const ct = CT.map(([key, name, level, width]) => {
    return [key, `CT ${name.toLowerCase()}`, level - width / 2, level + width / 2];
  });
  return [...named, ...ct];
}

/** Formats a value: integers whole, others with digits that fit the range. */
export function valueText(state, value) {
  if (value === null) return 'not a number';
  if (state.facts.pixel.sample !== 'f32') return `${Math.round(value)}`;
  const size = Math.max(...state.range.map(Math.abs), Number.MIN_VALUE);
  if (size >= 1e7 || size < 1e-4) return `${+value.toPrecision(4)}`;
  const digits = Math.min(Math.max(3 - Math.floor(Math.log10(state.span)), 0), 9);
  return `${+value.toFixed(digits)}`;
}

/** The sliders, the number boxes, the list of presets and the button beside it. */
export class WindowControls {
  constructor(viewer, find) {
    this.viewer = viewer;
    this.fieldset = find('window');
    this.preset = find('preset');
    this.unit = find('window-unit');
    this.sliders = { level: find('level'), width: find('width') };
    this.boxes = { level: find('level-number'), width: find('width-number') };
    for (const name of ['level', 'width']) {
      this.sliders[name].addEventListener('input', () => this.take(name, this.sliders[name].value));
      this.boxes[name].addEventListener('change', () => this.take(name, this.boxes[name].value));
    }
    this.preset.addEventListener('change', () => this.choose(this.preset.value));
    find('auto').addEventListener('click', () => this.choose('auto'));
  }

  /** Updates the controls for a new volume, or for its range of values. */
  describe() {
    const { state } = this.viewer;
    const [low, high] = state.range;
    this.fieldset.hidden = !state.isGrey;
    this.unit.textContent = state.facts.units.values ? `in ${state.facts.units.values}` : '';
    const { windowStep: step, span } = state;
    Object.assign(this.sliders.level, { min: low, max: high, step });
    Object.assign(this.sliders.width, { min: step, max: span, step });
    for (const box of Object.values(this.boxes)) box.step = step;
    const options = presets(state).map(([key, name]) => new Option(name, key));
    const own = new Option('Own window', 'own');
    own.disabled = true;
    this.preset.replaceChildren(...options, own);
  }

  /** Shows the window of the state. Leaves a box alone while it is being edited. */
  draw() {
    const { state } = this.viewer;
    for (const name of ['level', 'width']) {
      const [slider, box] = [this.sliders[name], this.boxes[name]];
      slider.value = state[name];
      const text = valueText(state, state[name]);
      slider.setAttribute('aria-valuetext', [text, state.facts.units.values ?? ''].join(' ').trim());
      if (document.activeElement !== box) box.value = text;
    }
    const near = (one, other) => Math.abs(one - other) <= state.span * 1e-6;
    const known = presets(state).find(([, , low, high]) => near(low, state.low) && near(high, state.high));
    this.preset.value = known ? known[0] : 'own';
  }

  take(name, text) {
    const { state } = this.viewer;
    const value = Number.parseFloat(text);
    if (!Number.isFinite(value)) {
      this.boxes[name].value = valueText(state, state[name]);
      return;
    }
    if (name === 'level') state.setWindow(value, state.width);
    else state.setWindow(state.level, value);
    this.viewer.changed();
  }

  choose(key) {
    const found = presets(this.viewer.state).find(([known]) => known === key);
    if (!found) return;
    this.viewer.state.showValues(found[2], found[3]);
    this.viewer.changed();
  }

  /** Returns the named window after the current one. */
  next() {
    const keys = presets(this.viewer.state).map(([key]) => key);
    const now = keys.indexOf(this.preset.value);
    const next = keys[(now + 1) % keys.length];
    this.choose(next);
    const [, name] = presets(this.viewer.state).find(([key]) => key === next);
    this.viewer.say(`Window: ${name}`);
  }
}

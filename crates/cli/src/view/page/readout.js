// The value and the position of a voxel: under the cursor, and where all slices meet.

import { lengthsText } from './lengths.js';
import { CLIENT } from './slices.js';
import { valueText } from './windowing.js';

/** Asks for the values of voxels, the newest question first; at most one is under way. */
export class VoxelReader {
  /** `hear` gets the voxel and its values: null where there is none. */
  constructor(view, fetch, hear) {
    this.view = view;
    this.fetch = fetch;
    this.hear = hear;
    this.sequence = 0;
    this.wanted = null;
    this.known = null;
    this.isAsking = false;
  }

  /** Wants the values of a voxel; null for none. */
  want(state, voxel) {
    this.wanted = voxel && { state, voxel, key: `${state.facts.number}:${voxel}` };
    if (this.wanted && !this.isAsking && this.wanted.key !== this.known?.key) this.ask();
  }

  /** The values of a voxel, if they have come. */
  valuesOf(state, voxel) {
    return this.known?.key === `${state.facts.number}:${voxel}` ? this.known.values : undefined;
  }

  /** Forgets what is known. */
  forget() {
    this.known = null;
    this.wanted = null;
  }

  async ask() {
    const asked = this.wanted;
    const { facts } = asked.state;
    this.isAsking = true;
    this.sequence += 1;
    const at = asked.voxel.map((number, axis) => number * facts.spacing[axis]).join(',');
    const query = new URLSearchParams({ at, client: CLIENT, view: this.view, sequence: this.sequence });
    try {
      const response = await this.fetch(`api/volumes/${facts.number}/voxel?${query}`);
      const { values } = await response.json();
      this.known = { key: asked.key, values };
    } catch {
      // The pictures say what is wrong with the viewer.
      this.known = { key: asked.key, values: undefined };
    }
    this.isAsking = false;
    this.hear();
    if (this.wanted && this.wanted.key !== this.known.key) this.ask();
  }
}

/** Values in words: with their unit, and channels with a space between them. */
export function valuesText(state, values) {
  if (values === undefined) return '…';
  if (values === null) return 'no voxel';
  const texts = values.map((value) => valueText(state, value));
  return [...texts, state.facts.units.values].filter(Boolean).join(' ');
}

/** A voxel and where it lies: index, and millimetres if the spacing is known. */
export function positionText(state, voxel) {
  const index = voxel.map((number, axis) => `${'xyz'[axis]} ${number}`).join('  ');
  const { facts } = state;
  if (!facts.units.lengths) return index;
  const place = voxel.map((number, axis) => number * facts.spacing[axis]);
  return `${index} · ${lengthsText(place, facts, ', ')}`;
}

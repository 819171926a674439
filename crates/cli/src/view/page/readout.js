// Shows value and position of a voxel: under the cursor, and where all slices meet.

import { lengthsText } from './lengths.js';
import { CLIENT } from './slices.js';
import { valueText } from './windowing.js';

/** Requests the values of voxels, the newest first; at most one request is under way. */
export class VoxelReader {
  /** `hear` receives the voxel and its values, null outside the volume. */
  constructor(view, fetch, hear) {
    this.view = view;
    this.fetch = fetch;
    this.hear = hear;
    this.sequence = 0;
    this.wanted = null;
    this.known = null;
    this.isAsking = false;
  }

  /** Requests the values of a voxel; null for none. */
  want(state, voxel) {
    this.wanted = voxel && { state, voxel, key: `${state.facts.number}:${voxel}` };
    if (this.wanted && !this.isAsking && this.wanted.key !== this.known?.key) this.ask();
  }

  /** Returns the values of a voxel, if they have arrived. */
  valuesOf(state, voxel) {
    return this.known?.key === `${state.facts.number}:${voxel}` ? this.known.values : undefined;
  }

  /** Forgets all values. */
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
      // The pictures report problems of the viewer.
      this.known = { key: asked.key, values: undefined };
    }
    this.isAsking = false;
    this.hear();
    if (this.wanted && this.wanted.key !== this.known.key) this.ask();
  }
}

/** Formats values: with their unit, channels separated by spaces. */
export function valuesText(state, values) {
  if (values === undefined) return '…';
  if (values === null) return 'no voxel';
  const texts = values.map((value) => valueText(state, value));
  return [...texts, state.facts.units.values].filter(Boolean).join(' ');
}

/** Formats a voxel and its position: index, and millimetres if the spacing is known. */
export function positionText(state, voxel) {
  const index = voxel.map((number, axis) => `${'xyz'[axis]} ${number}`).join('  ');
  const { facts } = state;
  if (!facts.units.lengths) return index;
  const place = voxel.map((number, axis) => number * facts.spacing[axis]);
  return `${index} · ${lengthsText(place, facts, ', ')}`;
}

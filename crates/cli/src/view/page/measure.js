// Measures the distance between two points.

import { lengthText } from './lengths.js';
import { length, sub } from './vectors.js';

export class Measure {
  constructor() {
    this.isOn = false;
    this.clear();
  }

  clear() {
    this.points = [];
    /** Position of the second point before it is chosen. */
    this.loose = null;
  }

  /** Adds a point. A third point begins a new distance. */
  add(place) {
    if (this.points.length === 2) this.clear();
    this.points.push(place);
    this.loose = null;
  }

  /** Both ends; the second may not be chosen yet. */
  get ends() {
    const [first, second = this.loose] = this.points;
    return first ? [first, second].filter(Boolean) : [];
  }

  /** The distance as text; empty until there are two ends. */
  text(state) {
    const [from, to] = this.ends;
    return from && to ? lengthText(length(sub(to, from)), state.facts.units.lengths) : '';
  }
}

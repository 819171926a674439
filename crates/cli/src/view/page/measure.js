// A distance between two places.

import { lengthText } from './lengths.js';
import { length, sub } from './vectors.js';

export class Measure {
  constructor() {
    this.isOn = false;
    this.clear();
  }

  clear() {
    this.points = [];
    /** Where the second point would be, while there is one. */
    this.loose = null;
  }

  /** Adds a point. After two, a third begins another distance. */
  add(place) {
    if (this.points.length === 2) this.clear();
    this.points.push(place);
    this.loose = null;
  }

  /** Both ends, the second perhaps not yet chosen. */
  get ends() {
    const [first, second = this.loose] = this.points;
    return first ? [first, second].filter(Boolean) : [];
  }

  /** The distance in words; nothing as long as there are no two ends. */
  text(state) {
    const [from, to] = this.ends;
    return from && to ? lengthText(length(sub(to, from)), state.facts.units.lengths) : '';
  }
}

// Lengths as people read them, and the scale bar.

const BAR_STEPS = [1, 2, 5, 10];

/** A number with a few digits that count, without zeros at its end. */
function short(value, digits) {
  return `${+value.toPrecision(digits)}`;
}

/** A length with its unit: `mm`, or voxels if there is none. */
export function lengthText(value, unit, digits = 4) {
  if (unit !== 'mm') return `${short(value, digits)} ${value === 1 ? 'voxel' : 'voxels'}`;
  if (value > 0 && value < 0.1) return `${short(value * 1000, digits)} µm`;
  return value < 1000 ? `${short(value, digits)} mm` : `${short(value / 1000, digits)} m`;
}

/** Lengths of a volume with the unit that fits its spacing behind the last. */
export function lengthsText(values, { spacing, units }, between) {
  const isFine = units.lengths === 'mm' && Math.min(...spacing) < 0.01;
  const numbers = values.map((value) => short(isFine ? value * 1000 : value, 4));
  return `${numbers.join(between)} ${isFine ? 'µm' : units.lengths}`;
}

/** The longest bar of a round length that has room, and what is written at it. */
export function scaleBar(pixelsPerUnit, unit, roomPixels) {
  const most = roomPixels / pixelsPerUnit;
  const power = 10 ** Math.floor(Math.log10(most));
  const length = power * BAR_STEPS.findLast((step) => step * power <= most * (1 + 1e-9));
  return { pixels: length * pixelsPerUnit, text: lengthText(length, unit) };
}

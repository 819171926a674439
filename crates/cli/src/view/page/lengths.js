// Formats lengths, and computes the scale bar.

const BAR_STEPS = [1, 2, 5, 10];

/** Formats a number with a few significant digits, without trailing zeros. */
function short(value, digits) {
  return `${+value.toPrecision(digits)}`;
}

/** Formats a length with its unit: `mm`, or voxels if there is none. */
export function lengthText(value, unit, digits = 4) {
  if (unit !== 'mm') return `${short(value, digits)} ${value === 1 ? 'voxel' : 'voxels'}`;
  if (value > 0 && value < 0.1) return `${short(value * 1000, digits)} µm`;
  return value < 1000 ? `${short(value, digits)} mm` : `${short(value / 1000, digits)} m`;
}

/** Formats lengths of a volume, with the unit of its spacing after the last. */
export function lengthsText(values, { spacing, units }, between) {
  const isFine = units.lengths === 'mm' && Math.min(...spacing) < 0.01;
  const numbers = values.map((value) => short(isFine ? value * 1000 : value, 4));
  return `${numbers.join(between)} ${isFine ? 'µm' : units.lengths}`;
}

/** Returns the longest scale bar of a round length that fits, and its label. */
export function scaleBar(pixelsPerUnit, unit, roomPixels) {
  const most = roomPixels / pixelsPerUnit;
  const power = 10 ** Math.floor(Math.log10(most));
  const length = power * BAR_STEPS.findLast((step) => step * power <= most * (1 + 1e-9));
  return { pixels: length * pixelsPerUnit, text: lengthText(length, unit) };
}

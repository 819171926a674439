// Pointers and wheels on a view: one finger moves, Shift or two fingers turn, the wheel steps.

const TURN_PER_PIXEL = 0.008;
const DRAG_PIXELS = 6;

/** Gestures and their descriptions, for the list of keys. */
export const GESTURES = [
  ['Drag', 'move the point where all slices meet'],
  ['Two clicks', 'while measuring: the ends of a distance'],
  ['Shift + drag', 'turn the oblique slice; in another view, about its middle'],
  ['Right button + drag', 'move the picture'],
  ['Wheel', 'step through the slices'],
  ['Ctrl + wheel, pinch', 'zoom'],
  ['Two fingers', 'on the oblique view: turn it; on others: move and zoom'],
  ['Twist two fingers', 'turn the oblique slice within the view'],
  ['Double click, title', 'enlarge a view, or restore it'],
  ['Drag in the box', 'turn the box'],
];

/** Adds gestures to a view. `viewer` holds the state and is notified of changes and of stillness. */
export function listen(viewer, view, element, stage) {
  const pointers = new Map();
  let mode = '';
  let steps = 0;

  const state = () => viewer.state;
  const pixels = () => state().pixels(view, stage.clientWidth, stage.clientHeight);
  const fromMiddle = (event) => {
    const place = stage.getBoundingClientRect();
    return [
      event.clientX - place.left - place.width / 2,
      event.clientY - place.top - place.height / 2,
    ];
  };
  const pair = () => {
    const [[ax, ay], [bx, by]] = pointers.values();
    return { x: (ax + bx) / 2, y: (ay + by) / 2, size: Math.hypot(bx - ax, by - ay), angle: Math.atan2(by - ay, bx - ax) };
  };
  const placeAt = (x, y) => state().place(view, x, y, pixels());
  const goTo = (x, y) => state().moveTo(placeAt(x, y));

  const turn = (from, to) => {
    if (view === 'oblique') {
      state().roll((to[0] - from[0]) * TURN_PER_PIXEL, (to[1] - from[1]) * TURN_PER_PIXEL);
      return;
    }
    const [x, y] = state().point(view, state().at, pixels());
    const angle = (point) => Math.atan2(point[1] - y, point[0] - x);
    state().turnAbout(state().frame(view).away, angle(to) - angle(from));
  };

  const pinch = (before, now) => {
    if (before.size > 0 && now.size > 0) {
      state().zoomBy(now.size / before.size, view, now.x, now.y, pixels());
    }
    const twist = now.angle - before.angle;
    const sign = view === 'oblique' ? -1 : 1;
    state().turnAbout(state().frame(view).away, sign * Math.atan2(Math.sin(twist), Math.cos(twist)));
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (view === 'oblique') state().roll(dx * TURN_PER_PIXEL, dy * TURN_PER_PIXEL);
    else state().pan(view, dx, dy, pixels());
  };

  const setMode = (next) => {
    mode = next;
    element.classList.toggle('turning', mode === 'turn');
    element.classList.toggle('panning', mode === 'pan');
  };

  let pressed = null;

  stage.addEventListener('pointerdown', (event) => {
    viewer.activate(view);
    stage.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, fromMiddle(event));
    if (pointers.size > 1) setMode('pinch');
    else if (event.button !== 0) setMode('pan');
    else if (viewer.distance.isOn) setMode('measure');
    else setMode(event.shiftKey ? 'turn' : 'move');
    if (mode === 'measure') {
      pressed = fromMiddle(event);
      viewer.measureAt(placeAt(...pressed));
    }
    if (mode === 'move' && event.pointerType === 'mouse') {
      goTo(...fromMiddle(event));
      viewer.changed();
    }
  });

  stage.addEventListener('pointermove', (event) => {
    const from = pointers.get(event.pointerId);
    const to = fromMiddle(event);
    viewer.hover(view, placeAt(...to));
    if (!from) return;
    if (from[0] === to[0] && from[1] === to[1]) return;
    const before = pointers.size === 2 ? pair() : null;
    pointers.set(event.pointerId, to);
    if (mode === 'pinch' && before) pinch(before, pair());
    else if (mode === 'turn') turn(from, to);
    else if (mode === 'pan') state().pan(view, to[0] - from[0], to[1] - from[1], pixels());
    else if (mode === 'move') goTo(...to);
    else return;
    viewer.changed();
  });

  const leave = (event) => {
    const from = pointers.get(event.pointerId);
    if (!from) return;
    pointers.delete(event.pointerId);
    if (mode === 'move' && event.type === 'pointerup') goTo(...from);
    // A distance can also be dragged.
    const isDragged = () => Math.hypot(from[0] - pressed[0], from[1] - pressed[1]) > DRAG_PIXELS;
    if (mode === 'measure' && viewer.distance.points.length === 1 && isDragged()) {
      viewer.measureAt(placeAt(...from));
    }
    // After two fingers, the remaining one has no effect.
    setMode(pointers.size > 0 ? 'rest' : '');
    if (pointers.size === 0) viewer.settle();
  };
  stage.addEventListener('pointerup', leave);
  stage.addEventListener('pointercancel', leave);
  stage.addEventListener('pointerleave', () => viewer.hover(view, null));
  stage.addEventListener('contextmenu', (event) => event.preventDefault());
  stage.addEventListener('dblclick', () => {
    if (!viewer.distance.isOn) viewer.enlarge(view);
  });

  stage.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      viewer.activate(view);
      const unit = event.deltaMode === 0 ? 1 : 33;
      if (event.ctrlKey || event.metaKey) {
        const factor = Math.exp(-Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.006);
        state().zoomBy(factor, view, ...fromMiddle(event), pixels());
      } else {
        // A wheel with clicks steps by one; a smooth wheel after some distance.
        const way = (event.deltaY || event.deltaX) * unit;
        steps = Math.abs(way) >= 50 ? Math.sign(way) : steps + way / 50;
        const whole = Math.trunc(steps);
        steps -= whole;
        if (whole === 0) return;
        state().step(view, whole);
      }
      viewer.changed();
    },
    { passive: false },
  );
}

const BOX_KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const BOX_TURN = Math.PI / 18;

/** Dragging the box, or its arrow keys, turns the viewpoint. */
export function listenToBox(viewer, box, canvas) {
  canvas.addEventListener('pointerdown', (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener('pointermove', (event) => {
    if (!canvas.hasPointerCapture(event.pointerId)) return;
    box.orbit(event.movementX * TURN_PER_PIXEL, event.movementY * TURN_PER_PIXEL);
    viewer.changed();
  });
  canvas.addEventListener('keydown', (event) => {
    const way = BOX_KEYS[event.key];
    if (!way) return;
    box.orbit(way[0] * BOX_TURN, way[1] * BOX_TURN);
    viewer.changed();
    event.preventDefault();
  });
}

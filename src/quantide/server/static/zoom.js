// Zoom of the Q-Q plot: a stack of nested ranges of phi.
export function createZoom(onChange) {
  let levels = [{ from: 0, to: 1 }];
  let minWidth = 1e-6; // of a range of phi

  const current = () => levels.at(-1);

  function setLevels(next) {
    levels = next;
    onChange();
  }

  // Return true if this range is narrower than the current one, and not too narrow.
  function zoomTo(from, to) {
    const range = { from: Math.max(0, from), to: Math.min(1, to) };
    const { from: low, to: high } = current();
    const isNarrower = range.to - range.from < 0.98 * (high - low) && range.to - range.from >= minWidth;
    if (isNarrower) setLevels([...levels, range]);
    return isNarrower;
  }

  // Halve the range: keep its upper half if it ends at 1, its lower half if it begins at 0, otherwise its middle.
  function zoomIn() {
    const { from, to } = current();
    const width = (to - from) / 2;
    if (to === 1) return zoomTo(1 - width, 1);
    return from === 0 ? zoomTo(0, width) : zoomTo(from + width / 2, to - width / 2);
  }

  // Move the range by a quarter of its width. The whole range cannot be moved.
  function pan(sign) {
    const { from, to } = current();
    const distance = sign > 0 ? Math.min((to - from) / 4, 1 - to) : -Math.min((to - from) / 4, from);
    if (distance !== 0 && levels.length > 1)
      setLevels([...levels.slice(0, -1), { from: from + distance, to: to + distance }]);
    return distance !== 0 && levels.length > 1;
  }

  return {
    current,
    zoomTo,
    zoomIn,
    pan,
    levels: () => levels,
    backTo(index) {
      if (index >= 0 && index < levels.length - 1) setLevels(levels.slice(0, index + 1));
    },
    startAt(from) {
      setLevels(from === 0 ? [{ from: 0, to: 1 }] : [{ from: 0, to: 1 }, { from, to: 1 }]);
    },
    // n is the number of values: a range of fewer than 4 shows nothing more.
    setCount(n) {
      minWidth = 4 / n;
    },
  };
}

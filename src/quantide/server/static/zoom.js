// Range of phi: nested zooms, with a way back.
export function zooming(changed) {
  let levels = [{ from: 0, to: 1 }];
  let least = 1e-6; // finer than this there is nothing to see

  const here = () => levels.at(-1);

  function become(next) {
    levels = next;
    changed();
  }

  // Return true if the range could be made smaller.
  function into(from, to) {
    const range = { from: Math.max(0, from), to: Math.min(1, to) };
    const { from: low, to: high } = here();
    const narrower = range.to - range.from < 0.98 * (high - low) && range.to - range.from >= least;
    if (narrower) become([...levels, range]);
    return narrower;
  }

  // Half of the range: at the end of all ranks the tail half, otherwise the middle.
  function closer() {
    const { from, to } = here();
    const width = (to - from) / 2;
    if (to === 1) return into(1 - width, 1);
    return from === 0 ? into(0, width) : into(from + width / 2, to - width / 2);
  }

  // The range beside this one, a quarter further.
  function move(sign) {
    const { from, to } = here();
    const way = sign > 0 ? Math.min((to - from) / 4, 1 - to) : -Math.min((to - from) / 4, from);
    if (way !== 0 && levels.length > 1) become([...levels.slice(0, -1), { from: from + way, to: to + way }]);
    return way !== 0 && levels.length > 1;
  }

  return {
    here,
    into,
    closer,
    move,
    levels: () => levels,
    back(index) {
      if (index >= 0 && index < levels.length - 1) become(levels.slice(0, index + 1));
    },
    jump(from) {
      become(from === 0 ? [{ from: 0, to: 1 }] : [{ from: 0, to: 1 }, { from, to: 1 }]);
    },
    among(n) {
      least = 4 / n;
    },
  };
}

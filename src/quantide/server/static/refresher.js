// Throttles the refreshes of a panel: one at a time, only while it is visible, and less often when they are slow.
//
// task() refreshes the element. schedule() runs it minInterval milliseconds after its last run, or after three times
// the duration of that run if this is longer; refreshNow() runs it without this pause.
export function createRefresher(element, task, minInterval) {
  let visible = false;
  let requested = true;
  let running = false;
  let immediate = false; // refreshNow() was called during a refresh
  let earliest = 0;
  let timer = 0;

  async function run() {
    clearTimeout(timer);
    if (!requested || running || !visible || document.hidden) return;
    const wait = earliest - performance.now();
    if (wait > 0) {
      timer = setTimeout(run, wait);
      return;
    }
    const began = performance.now();
    requested = immediate = false;
    running = true;
    try {
      await task();
    } finally {
      const ended = performance.now();
      running = false;
      element.classList.remove("loading"); // its placeholder height is no longer needed
      earliest = immediate ? 0 : ended + Math.max(minInterval, 3 * (ended - began)); // slow tasks run less often
      run();
    }
  }

  new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
    run();
  }, { rootMargin: "150px" }).observe(element);
  element.addEventListener("input", () => (visible = true)); // in use, even if content above has pushed it out of view
  document.addEventListener("visibilitychange", run);

  return {
    schedule() {
      requested = true;
      run();
    },
    refreshNow() {
      requested = immediate = true;
      earliest = 0;
      run();
    },
  };
}

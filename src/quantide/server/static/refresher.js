// Repeated work: never concurrent, paced by its duration, and only while it is visible.
export function paced(element, task, least) {
  let seen = false;
  let wanted = true;
  let running = false;
  let urgent = false; // now() was called during the work
  let next = 0;
  let timer = 0;

  async function go() {
    clearTimeout(timer);
    if (!wanted || running || !seen || document.hidden) return;
    const wait = next - performance.now();
    if (wait > 0) {
      timer = setTimeout(go, wait);
      return;
    }
    const began = performance.now();
    wanted = urgent = false;
    running = true;
    try {
      await task();
    } finally {
      const ended = performance.now();
      running = false;
      element.classList.remove("loading"); // from here on it is as high as its content
      next = urgent ? 0 : ended + Math.max(least, 3 * (ended - began)); // slow work is repeated less often
      go();
    }
  }

  new IntersectionObserver((entries) => {
    seen = entries.at(-1).isIntersecting;
    go();
  }, { rootMargin: "150px" }).observe(element);
  element.addEventListener("input", () => (seen = true)); // in use, though parts above it may have pushed it out of view
  document.addEventListener("visibilitychange", go);

  return {
    later() {
      wanted = true;
      go();
    },
    now() {
      wanted = urgent = true;
      next = 0;
      go();
    },
  };
}

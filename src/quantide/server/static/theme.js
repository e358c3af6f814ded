// Light or dark: the earlier choice, otherwise the system's setting. Runs before the first paint, so nothing flashes.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("quantide-theme");
    } catch {
      return null; // storage can be forbidden; then the choice lasts as long as the page
    }
  };
  const show = (theme) => {
    root.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  const fitting = () => chosen() ?? (system.matches ? "dark" : "light");

  show(fitting());
  system.addEventListener("change", () => show(fitting()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-toggle]")) return;
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("quantide-theme", theme);
    } catch {
      // as above
    }
    show(theme);
  });
}

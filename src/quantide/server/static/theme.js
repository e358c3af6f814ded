// Light or dark: the user's stored choice, otherwise the system's. Runs before the first paint, to avoid a flash.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const storedTheme = () => {
    try {
      return localStorage.getItem("quantide-theme");
    } catch {
      return null; // storage may be blocked; then the choice lasts until a reload
    }
  };
  const show = (theme) => {
    root.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  const currentTheme = () => storedTheme() ?? (system.matches ? "dark" : "light");

  show(currentTheme());
  system.addEventListener("change", () => show(currentTheme()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-toggle]")) return;
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("quantide-theme", theme);
    } catch {
      // storage may be blocked
    }
    show(theme);
  });
}

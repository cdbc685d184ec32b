// Light or dark scheme: as in the address, or else as the reader's system prefers.

function makeThemed() {
  const root = document.documentElement;
  const kept = addressed().get("theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.theme ?? (preferred.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  const button = document.createElement("button");
  button.className = "theme";
  const show = () => {
    button.textContent = other();
    button.setAttribute("aria-label", other() + " theme");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = other();
    keepInAddress("theme", root.dataset.theme);
    show();
  });
  preferred.addEventListener("change", show);
  show();
  document.body.prepend(button);
}

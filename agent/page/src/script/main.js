// Everything is there without scripts; they add sorting, filtering, ranges, copying and, of a live page, its news.

/** @param {ParentNode} root */
function enhance(root) {
  makeTables(root);
  makeCopyable(root);
  /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".over-time")).forEach(makeRanged);
}

enhance(document);
makeThemed();
addEventListener("keydown", (event) => {
  const isInFilter = event.target instanceof HTMLInputElement && event.target.type === "search";
  if (event.key === "Escape" && !isInFilter) document.querySelector(".range button")?.dispatchEvent(new Event("click"));
});
// A link into the page that is open already.
addEventListener("hashchange", () => location.hash.includes("=") && location.reload());
/** Whoever drags over a chart or moves a slider keeps the section. @param {PointerEvent} event */
const hold = (event) => {
  document.querySelector(".held")?.classList.remove("held");
  if (event.type === "pointerdown" && event.target instanceof Element) event.target.closest(".over-time")?.classList.add("held");
};
for (const type of /** @type {const} */ (["pointerdown", "pointerup", "pointercancel"])) addEventListener(type, hold);
const connection = document.getElementById("connection");
if (connection) {
  // The token is in a cookie now.
  if (location.search !== "") history.replaceState(null, "", location.pathname + location.hash);
  follow(connection);
}

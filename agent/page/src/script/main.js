// The page is complete without scripts. They add sorting, filtering, ranges, copying and live updates.

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
// The reader has opened a link to the page in the tab that shows it: applies its choices.
addEventListener("hashchange", () => location.hash.includes("=") && location.reload());
/** Keeps the charts from being replaced during a drag or a move of a slider. @param {PointerEvent} event */
const hold = (event) => {
  document.querySelector(".held")?.classList.remove("held");
  if (event.type === "pointerdown" && event.target instanceof Element) event.target.closest(".over-time")?.classList.add("held");
};
for (const type of /** @type {const} */ (["pointerdown", "pointerup", "pointercancel"])) addEventListener(type, hold);
const connection = document.getElementById("connection");
if (connection) {
  // The cookie has the token now: removes it from the visible address.
  if (location.search !== "") history.replaceState(null, "", location.pathname + location.hash);
  follow(connection);
}

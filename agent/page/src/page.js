// Adds sorting, filtering and copying. Everything is there without it.
"use strict";

/** @param {HTMLTableElement} table @param {number} column @param {boolean} ascending */
function sort(table, column, ascending) {
  const body = table.tBodies[0];
  /** @param {HTMLTableRowElement} row */
  const key = (row) => row.cells[column].dataset.n ?? row.cells[column].textContent ?? "";
  const rows = Array.from(body.rows).sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    const [x, y] = [Number(a), Number(b)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
    return ascending ? order : -order;
  });
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.sorted")) {
  const heads = Array.from(table.querySelectorAll("thead th"));
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sort(/** @type {HTMLTableElement} */ (table), column, ascending);
    });
  });
  const rows = Array.from(table.querySelectorAll("tbody tr"));
  if (rows.length > 8) {
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = "filter";
    filter.setAttribute("aria-label", "filter " + (table.getAttribute("aria-label") ?? "the table"));
    filter.addEventListener("input", () => {
      const text = filter.value.toLowerCase();
      for (const row of rows) {
        row.toggleAttribute("hidden", !(row.textContent ?? "").toLowerCase().includes(text));
      }
    });
    table.before(filter);
  }
}

for (const command of document.querySelectorAll("pre.command")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", () => {
    const text = document.createRange();
    text.selectNodeContents(command);
    const selection = getSelection();
    selection?.removeAllRanges();
    selection?.addRange(text);
    // A file has no clipboard in some browsers; the text is selected then.
    navigator.clipboard?.writeText(command.textContent ?? "").then(() => (button.textContent = "copied"), () => {});
  });
  command.after(button);
}

// Sorts and filters tables.

/** @param {HTMLTableElement} table @param {number} column @param {boolean} ascending */
function sort(table, column, ascending) {
  const body = table.tBodies[0];
  /** @param {HTMLTableRowElement} row */
  const key = (row) => {
    const cell = row.cells[column];
    return cell.querySelector("meter")?.getAttribute("value") ?? cell.dataset.n ?? cell.textContent ?? "";
  };
  const rows = Array.from(body.rows).sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    const [x, y] = [Number(a), Number(b)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
    return ascending ? order : -order;
  });
  body.append(...rows);
}

/** @param {HTMLTableElement} table @param {string} name */
function makeSortable(table, name) {
  const heads = Array.from(table.querySelectorAll("thead th"));
  /** @param {number} column @param {boolean} ascending */
  const show = (column, ascending) => {
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
    sort(table, column, ascending);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") === "descending";
      show(column, ascending);
      keepInAddress("sort." + name, column + (ascending ? "a" : "d"));
    });
  });
  const sorted = addressed().get("sort." + name);
  const column = parseInt(sorted ?? "", 10);
  if (column < heads.length) show(column, sorted?.endsWith("a") ?? false);
}

/** @param {HTMLTableElement} table @param {string} name */
function makeFilterable(table, name) {
  const rows = Array.from(table.querySelectorAll("tbody tr"));
  const kept = addressed().get("filter." + name) ?? "";
  if (rows.length <= 8 && kept === "") return;
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "filter";
  filter.value = kept;
  filter.setAttribute("aria-label", "filter " + (table.getAttribute("aria-label") ?? "the table"));
  const apply = () => {
    const text = filter.value.toLowerCase();
    for (const row of rows) {
      row.toggleAttribute("hidden", !(row.textContent ?? "").toLowerCase().includes(text));
    }
  };
  filter.addEventListener("input", () => {
    apply();
    keepInAddress("filter." + name, filter.value);
  });
  apply();
  table.before(filter);
}

/** @param {ParentNode} root */
function makeTables(root) {
  for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (root.querySelectorAll("table.sorted"))) {
    const name = table.closest("section")?.id ?? "";
    makeSortable(table, name);
    makeFilterable(table, name);
  }
}

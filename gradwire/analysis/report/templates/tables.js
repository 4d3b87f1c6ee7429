"use strict";
// Without this script every table is there, in the report's order. With it, a click on a header sorts by that column, and a long table
// has a field above it that hides the rows without the words in it.
(() => {
  const FILTERED_FROM = 8; // rows: fewer are seen at a glance

  const RATES = { kbit: 1e3, mbit: 1e6, gbit: 1e9, tbit: 1e12 };

  // The number that a cell begins with, rates in bit/s; rows without one come last in either direction.
  function numberIn(text) {
    const found = text.replace(/,/g, "").match(/^([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([kmgt]bit)?/i);
    return found ? Number(found[1]) * (found[2] ? RATES[found[2].toLowerCase()] : 1) : null;
  }

  function compare(a, b, numeric) {
    return numeric ? numberIn(a) - numberIn(b) : a.localeCompare(b, "en", { numeric: true });
  }

  function sort(table, header) {
    const column = header.cellIndex, body = table.tBodies[0];
    const direction = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = Array.from(body.rows, (row) => ({ row, text: row.cells[column].textContent.trim() }));
    const numeric = header.classList.contains("number") || (rows.length && rows.every(({ text }) => numberIn(text) !== null));
    const known = rows.filter(({ text }) => (numeric ? numberIn(text) !== null : text !== ""));
    const unknown = rows.filter((entry) => !known.includes(entry));
    known.sort((a, b) => direction * compare(a.text, b.text, numeric));
    for (const { row } of [...known, ...unknown]) body.append(row);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  }

  function makeSortable(table) {
    for (const header of table.tHead.querySelectorAll("th")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, header));
      header.append(button);
    }
  }

  function makeFiltered(table) {
    const rows = Array.from(table.tBodies[0].rows);
    if (rows.length < FILTERED_FROM) return;
    const field = document.createElement("input");
    field.type = "search";
    field.className = "filter";
    field.placeholder = "Filter rows: words that a row has";
    field.setAttribute("aria-label", "Filter rows");
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    table.closest(".wide").before(field);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    makeSortable(table);
    makeFiltered(table);
  }
})();

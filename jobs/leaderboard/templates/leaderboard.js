"use strict";
// Choose a table of each benchmark, hide published rows, sort by a column. Missing values stay last in both directions.
(() => {
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? cell.dataset.value : cell.textContent.trim();
  };

  const sort = (table, head, direction) => {
    const column = head.cellIndex;
    const isNumber = head.dataset.kind === "number";
    const sign = direction === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const [first, second] = [valueOf(a, column), valueOf(b, column)];
      if (first === "" || second === "") return (first === "") - (second === "");
      return sign * (isNumber ? Number(first) - Number(second) : first.localeCompare(second, "en", { numeric: true }));
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
  };

  for (const section of document.querySelectorAll("main > section")) {
    const table = section.querySelector("table");
    const board = section.querySelector(".board");
    const published = section.querySelector(".published");
    const show = () => {
      table.classList.toggle("one-board", board.value !== "");
      for (const row of table.tBodies[0].rows) {
        const isOther = board.value !== "" && row.dataset.board !== board.value;
        row.hidden = isOther || (/published|reported/.test(row.className) && !published.checked);
      }
    };
    for (const head of table.tHead.rows[0].cells) {
      if (!head.dataset.kind) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.dataset.kind === "number" ? "descending" : "ascending";
        const now = head.getAttribute("aria-sort");
        sort(table, head, now ? (now === "ascending" ? "descending" : "ascending") : first);
      });
    }
    board.addEventListener("change", show);
    published.addEventListener("change", show);
    section.querySelector(".controls").hidden = false;
    show();
  }
})();

"use strict";
// Sort the rows of a table by a column, within each heading's block; let tables that fit keep their heads in sight.
(() => {
  const numberOf = (text) => {
    const match = /^[+\u2212-]?\d[\d,]*\.?\d*|^[+\u2212-]?\.\d+/.exec(text.replace(/^\$/, ""));
    return match ? Number(match[0].replaceAll(",", "").replace("\u2212", "-")) : null;
  };
  const textOf = (row, column) => (row.cells[column].querySelector("strong, span") ?? row.cells[column]).textContent.trim();

  const sort = (table, column, direction) => {
    const sign = direction === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const [first, second] = [textOf(a, column), textOf(b, column)];
      const [x, y] = [numberOf(first), numberOf(second)];
      if (column && (x === null) !== (y === null)) return x === null ? 1 : -1;
      return sign * (column && x !== null ? x - y : first.localeCompare(second, "en", { numeric: true }));
    };
    const blocks = [[]];
    for (const row of table.tBodies[0].rows) {
      if (row.classList.contains("heading")) blocks.push([row], []);
      else blocks.at(-1).push(row);
    }
    const isHeading = (block) => block[0]?.classList.contains("heading");
    table.tBodies[0].append(...blocks.flatMap((block) => (isHeading(block) ? block : block.sort(compare))));
  };

  for (const table of document.querySelectorAll("table.grid")) {
    if (table.tBodies[0].rows.length < 3) continue;
    const heads = [...table.tHead.rows].at(-1).cells;
    for (const [column, head] of [...heads].entries()) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const now = head.getAttribute("aria-sort");
        const next = now ? (now === "ascending" ? "descending" : "ascending") : first;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", next);
        sort(table, column, next);
      });
    }
  }

  const fit = (box) => {
    box.classList.remove("fits");
    const fits = box.scrollWidth <= box.clientWidth;
    box.classList.toggle("fits", fits);
    if (fits) box.removeAttribute("tabindex");
    else box.tabIndex = 0;
  };
  const boxes = document.querySelectorAll(".scroll");
  const observer = new ResizeObserver((entries) => entries.forEach((entry) => fit(entry.target)));
  for (const box of boxes) observer.observe(box);
})();

"use strict";
(() => {
  const head = JSON.parse(document.body.dataset.head);
  const items = [...document.querySelectorAll(".item")];
  const storageKey = ["vlmsweep", head.benchmark, head.kind, head.annotator, head.draw].join("/");
  const byId = (id) => document.getElementById(id);
  let unsaved = false;

  const valueOf = (box) => {
    const text = box.querySelector("input[type=text]");
    if (text) return text.value.trim() || null;
    const chosen = box.querySelector("input:checked");
    return chosen ? chosen.value : null;
  };

  const setValue = (box, value) => {
    const text = box.querySelector("input[type=text]");
    if (text) text.value = value;
    else for (const input of box.querySelectorAll("input")) input.checked = input.value === value;
  };

  // Read one part; a question whose condition does not hold is hidden, and its value is empty.
  const readPart = (part) => {
    const row = { ...JSON.parse(part.dataset.fields), [head.annotator_column]: head.annotator };
    let complete = true;
    for (const box of part.querySelectorAll(".question")) {
      const condition = JSON.parse(box.dataset.if);
      box.hidden = "column" in condition && row[condition.column] !== condition.value;
      const value = box.hidden ? "" : valueOf(box);
      row[box.dataset.column] = value ?? "";
      complete &&= value !== null;
    }
    return { row, complete };
  };

  // Return the rows of an item, or null where something is open.
  const readItem = (item) => {
    const parts = [...item.querySelectorAll(".part")].map(readPart);
    const preference = item.querySelector(".preference");
    const best = preference ? valueOf(preference) : "0";
    if (head.preferred) {
      parts.forEach((part, place) => {
        const adequate = preference || part.row.adequate === "1";
        part.row[head.preferred] = best === null ? "" : adequate && best === String(place) ? "1" : "0";
      });
    }
    const rows = parts.map((part) => part.row);
    const complete = best !== null && parts.every((part) => part.complete);
    item.classList.toggle("done", complete);
    return { rows, best, complete };
  };

  const readAll = () => {
    const read = items.map(readItem);
    const done = read.filter((one) => one.complete);
    byId("progress").textContent = `${done.length} of ${items.length} done`;
    return { read, done };
  };

  const answers = () => {
    const { done } = readAll();
    return {
      benchmark: head.benchmark,
      kind: head.kind,
      annotator: head.annotator,
      draw: head.draw,
      items: items.length,
      complete: done.length,
      rows: done.flatMap((one) => one.rows),
    };
  };

  // Fill in the rows of a saved file or of this browser's memory.
  const restore = (rows) => {
    const saved = new Map(rows.map((row) => [identity(row), row]));
    for (const item of items) {
      const parts = [...item.querySelectorAll(".part")];
      const found = parts.map((part) => saved.get(identity(JSON.parse(part.dataset.fields))));
      parts.forEach((part, place) => {
        if (!found[place]) return;
        for (const box of part.querySelectorAll(".question")) setValue(box, found[place][box.dataset.column] ?? "");
      });
      const preference = item.querySelector(".preference");
      if (preference && found.every((row) => row?.[head.preferred])) {
        const best = found.findIndex((row) => row[head.preferred] === "1");
        setValue(preference, best < 0 ? "none" : String(best));
      }
    }
    readAll();
  };

  const columns = Object.keys(JSON.parse(document.querySelector(".part")?.dataset.fields ?? "{}"));
  const identity = (row) => JSON.stringify(columns.map((name) => row[name]));

  const remember = () => {
    unsaved = true;
    byId("message").textContent = "";
    try {
      localStorage.setItem(storageKey, JSON.stringify(readAll().read.flatMap((one) => one.rows)));  // of open items too
    } catch {
      readAll(); // a browser may refuse to remember files; saving still works
    }
  };

  const save = () => {
    const saved = answers();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(saved, null, 1)], { type: "application/json" }));
    link.download = `${head.benchmark}-${head.annotator}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
    unsaved = false;
    byId("message").textContent = `Saved ${saved.complete} of ${saved.items} items as ${link.download}.`;
  };

  const load = async (event) => {
    const message = byId("message");
    try {
      const saved = JSON.parse(await event.target.files[0].text());
      if (saved.benchmark !== head.benchmark || saved.kind !== head.kind || saved.annotator !== head.annotator) {
        message.textContent = `This file is of ${saved.benchmark}, ${saved.kind}, ${saved.annotator}.`;
        return;
      }
      restore(saved.rows);
      message.textContent = `Loaded ${saved.complete} items.`;
    } catch {
      message.textContent = "This file was not saved by a form.";
    }
  };

  const next = () => items[readAll().read.findIndex((one) => !one.complete)]?.scrollIntoView({ block: "start" });

  document.querySelector("main").addEventListener("input", remember);
  byId("save").addEventListener("click", save);
  byId("next").addEventListener("click", next);
  byId("load").addEventListener("change", load);
  window.addEventListener("beforeunload", (event) => {
    if (unsaved) event.preventDefault();
  });
  try {
    restore(JSON.parse(localStorage.getItem(storageKey) ?? "[]"));
  } catch {
    readAll();
  }
})();

"use strict";
// Keyboard: `/` searches; in a list j and k move and Enter opens; on a sample's page j and k are next and previous; `?` shows them.
(() => {
  const keys = document.getElementById("keys");
  const toggleKeys = () => (keys.open ? keys.close() : keys.showModal());
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", toggleKeys);
  }
  const search = document.getElementById("search");
  const items = [...document.querySelectorAll(".list > li")].filter((item) => item.querySelector("a.open"));
  let place = -1;

  const move = (step) => {
    if (items.length === 0) return;
    items[place]?.classList.remove("here");
    const next = Math.min(Math.max(place + step, 0), items.length - 1);
    if (next === place) document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]")?.click();
    place = next;
    items[place].classList.add("here");
    items[place].querySelector("a.open").focus({ preventScroll: true });
    items[place].scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select, textarea, video");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    if (event.key === "?") toggleKeys();
    if (keys.open) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "j" || event.key === "k") {
      if (items.length > 0) move(event.key === "j" ? 1 : -1);
      else document.querySelector(event.key === "j" ? "a[rel=next]" : "a[rel=prev]")?.click();
    } else if (event.key === "u") {
      document.getElementById("up")?.click();
    }
  });

  for (const form of document.querySelectorAll("form")) {
    // Empty choices stay out of the address, so that links are short.
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
    });
    if ("submits" in form.dataset) form.addEventListener("change", () => form.requestSubmit());
  }
  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("form :disabled")) field.disabled = false;
  });

  for (const button of document.querySelectorAll("button[data-shows]")) {
    button.addEventListener("click", () => {
      const rows = document.getElementById(button.dataset.shows);
      rows.hidden = !rows.hidden;
      button.setAttribute("aria-expanded", String(!rows.hidden));
      button.textContent = button.textContent.replace(rows.hidden ? "Hide" : "Show", rows.hidden ? "Show" : "Hide");
    });
  }
})();

"use strict";
// Show samples with filters and search. Files in `data` call `siteItems`; all foreign text becomes text nodes.
(() => {
  const PAGE = 50, BRIEF = 200, FOLDED = 900, LISTED = 12;
  const FIELDS = ["benchmark", "task", "setting", "variant", "sample_id", "category"];
  const facts = JSON.parse(document.getElementById("content").dataset.facts);
  const [form, count, place] = ["filters", "count", "items"].map((id) => document.getElementById(id));
  const items = new Array(facts.items);
  const files = facts.starts.map(() => null);

  const element = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const textOf = (value) => (typeof value === "string" ? value : `${value[0]}\u2026 [${value[1].toLocaleString("en")} more characters]`);
  const brief = (value) => {
    const text = textOf(value).replace(/^(\[(image|video)\]\s*)+/, "").replace(/\s+/g, " ").trim();
    return text.length > BRIEF ? `${text.slice(0, BRIEF)}\u2026` : text;
  };

  // Data files, each once.
  window.siteItems = (first, part) => part.forEach((item, offset) => { items[first + offset] = item; });
  const load = (number) => (files[number] ??= new Promise((resolve, reject) => {
    const script = element("script", { src: `data/${number}.js` });
    script.onload = resolve;
    script.onerror = () => reject(new Error(`data/${number}.js cannot be read; copy the whole folder of the site`));
    document.head.append(script);
  }));
  const fileOf = (item) => facts.starts.findLastIndex((first) => first <= item);

  // The state is in the address behind #.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const address = (changes) => {
    const values = state();
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null) values.delete(name);
      else values.set(name, value);
    }
    return `#${values}`;
  };

  const searched = (item) => {
    const texts = [item.sample_id, item.prompt, ...item.expected, ...item.answers.flatMap((each) => [each.output ?? "", each.read ?? ""])];
    return texts.map(textOf).join("\n").toLowerCase();
  };
  const sought = (query) => {
    const [model, outcome] = [query.get("model"), query.get("outcome")];
    return (answer) => (!model || facts.models[answer.model] === model) && (!outcome || answer.outcome === outcome);
  };
  const matcher = (query) => {
    const [words, isSought] = [query.get("q")?.toLowerCase(), sought(query)];
    const chosen = FIELDS.filter((name) => query.get(name));
    return (item) => {
      if (chosen.some((name) => item[name] !== query.get(name))) return false;
      if ((query.get("model") || query.get("outcome")) && !item.answers.some(isSought)) return false;
      const outcomes = item.answers.map((each) => each.outcome);
      if (query.get("disagree") && !(outcomes.includes("right") && outcomes.some((each) => ["wrong", "unread"].includes(each)))) return false;
      return !words || searched(item).includes(words);
    };
  };
  const isFiltered = (query) => ["q", "model", "outcome", "disagree", ...FIELDS].some((name) => query.get(name));

  const badge = (answer) => element("span", { class: `badge ${answer.outcome}` }, facts.outcomes[answer.outcome] ?? answer.outcome);
  const placeOf = (item) => [item.benchmark, item.task, item.setting, item.sample_id, item.variant, item.category, item.prompt_set].filter(Boolean).join(", ");
  const words = (answer) => answer.read ?? answer.output ?? answer.error ?? "";

  const listed = (number, query) => {
    const item = items[number];
    const isSought = sought(query);
    const answers = [...item.answers].sort((a, b) => isSought(b) - isSought(a)); // before those that are not shown
    const picture = item.media.find((medium) => medium.src);
    const given = answers.slice(0, LISTED).map((answer) => element("li", {}, badge(answer),
      element("span", { class: "words" }, `${facts.models[answer.model]}: `, element("bdi", {}, brief(words(answer))))));
    const more = item.answers.length - given.length;
    if (more) given.push(element("li", { class: "place" }, `and ${more} more answers`));
    return element("li", picture ? {} : { class: "bare" },
      picture ? element("img", { src: picture.src, alt: "", loading: "lazy" }) : null,
      element("div", {},
        element("p", {}, element("a", { href: address({ item: number }), dir: "auto" }, brief(item.line) || brief(item.prompt) || item.sample_id)),
        item.expected.length ? element("p", { class: "expected" }, "Expected: ", element("bdi", {}, brief(item.expected.map(textOf).join(" | ")))) : null,
        element("p", { class: "place" }, placeOf(item))),
      element("ul", { class: "given" }, ...given));
  };

  let order = []; // of the items that filters leave, else empty
  const showList = async (query, isCurrent) => {
    const page = Math.max(1, Number.parseInt(query.get("page"), 10) || 1);
    const filtered = isFiltered(query);
    const first = (page - 1) * PAGE;
    const matches = matcher(query);
    const numbers = [];
    order = numbers;
    const draw = (isWhole) => {
      const total = filtered ? numbers.length : facts.items;
      const shown = filtered ? numbers.slice(first, first + PAGE) : [...items.keys()].slice(first, first + PAGE);
      const only = ["sample_id", "variant"].map((name) => query.get(name)).filter(Boolean).join(", ");
      count.textContent = (only && `${only}: `) + (total
        ? `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${total.toLocaleString("en")} samples${isWhole ? "" : ", reading on"}`
        : isWhole ? "No sample." : "Reading");
      const step = (text, to, isThere) => {
        const button = element("button", { type: "button" }, text);
        button.disabled = !isThere;
        button.addEventListener("click", () => { location.hash = address({ page: to }); scrollTo(0, 0); });
        return button;
      };
      const pager = total > PAGE
        ? element("p", { class: "pager" }, step("Previous page", page - 1, page > 1), `Page ${page}`, step("Next page", page + 1, first + PAGE < total))
        : null;
      place.replaceChildren(...[shown.length ? element("ul", { class: "samples" }, ...shown.map((number) => listed(number, query))) : null, pager].filter(Boolean));
    };
    let drawnAt = 0;
    for (const [number, start] of facts.starts.entries()) {
      const end = facts.starts[number + 1] ?? facts.items;
      if (!filtered && (end <= first || start >= first + PAGE)) continue;
      await load(number);
      if (!isCurrent()) return;
      if (!filtered) continue;
      for (let item = start; item < end; item += 1) if (matches(items[item])) numbers.push(item);
      if (numbers.length >= first + PAGE && !drawnAt || performance.now() - drawnAt > 500) {
        draw(false);
        drawnAt = performance.now();
      }
    }
    draw(true);
  };

  const folded = (text) => (text.length <= FOLDED ? text
    : element("details", {}, element("summary", {}, `${text.slice(0, FOLDED / 2)}\u2026`), text));
  const described = (name, value) => (value === undefined ? []
    : [element("dt", {}, name), element("dd", { class: "text", dir: "auto" }, folded(textOf(value)))]);
  const medium = (each) => {
    const changed = each.change ? [element("p", { class: "place" }, `Changed: ${each.change}`)] : [];
    const alt = each.kind === "video" ? "frames of the clip" : "picture";
    if (each.src) return [element("img", { src: each.src, alt, loading: "lazy" }), ...changed];
    const why = each.blank ? `blank: ${each.blank}` : each.left_out ? "not included in this site" : "cannot be shown";
    return [element("p", { class: "place" }, `${each.kind === "video" ? "Clip" : "Picture"}: ${why}`), ...changed];
  };
  const card = (answer) => element("section", { class: "card" },
    element("h2", {}, element("bdi", {}, facts.models[answer.model]), badge(answer)),
    element("dl", {},
      ...described("Answer", answer.output ?? (answer.error ? `no answer: ${answer.error}` : "")),
      ...described("Read as", answer.read)),
    element("details", {}, element("summary", {}, "Facts"), element("dl", {},
      ...(answer.steps ?? []).flatMap((text, step) => described(`Answer to step ${step + 1}`, text)),
      ...described("Thoughts", answer.reasoning),
      ...described("Scores", answer.scores?.map((score) => score.join(" ")).join(", ")),
      ...described("Asked otherwise", answer.prompt))));

  const showItem = async (number, isCurrent) => {
    await load(fileOf(number));
    if (!isCurrent()) return;
    const item = items[number];
    count.replaceChildren(element("a", { href: address({ item: null }) }, "Back to the list"));
    place.replaceChildren(element("article", { class: "sample" },
      element("p", { class: "place" }, placeOf(item)),
      element("div", { class: "asked" },
        element("dl", {}, ...described("Question", item.prompt), ...(item.expected.length ? described("Expected", item.expected.map(textOf).join("\n")) : [])),
        element("div", { class: "media" }, ...item.media.flatMap(medium), item.unshown ? element("p", { class: "place" }, item.unshown) : null)),
      element("div", { class: "cards" }, ...item.answers.map(card))));
    scrollTo(0, 0);
  };

  let turn = 0;
  const show = () => {
    if (turn && location.hash === "#content") return; // the link that skips the head
    const mine = ++turn;
    const isCurrent = () => mine === turn;
    const query = state();
    for (const field of form.elements) {
      if (field.type === "checkbox") field.checked = query.get(field.name) === field.value;
      else if (field.name && field !== document.activeElement) field.value = query.get(field.name) ?? "";
    }
    const item = query.has("item") ? Number(query.get("item")) : -1;
    const isItem = Number.isInteger(item) && item >= 0 && item < facts.items;
    form.hidden = isItem;
    const shown = isItem ? showItem(item, isCurrent) : showList(query, isCurrent);
    shown.catch((error) => { if (isCurrent()) count.textContent = error.message; });
  };
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      location.hash = address({ disagree: "", ...Object.fromEntries(new FormData(form)), page: "", item: "" });
    }, 200);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => { location.hash = ""; });
  const keys = document.getElementById("keys");
  const toggleKeys = () => (keys.open ? keys.close() : keys.showModal());
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", toggleKeys);
  }
  const step = (by) => {
    if (!state().has("item")) {
      const links = [...place.querySelectorAll(".samples a")];
      links[Math.min(Math.max(links.indexOf(document.activeElement) + by, 0), links.length - 1)]?.focus();
      return;
    }
    const item = Number(state().get("item"));
    const next = order.includes(item) ? order[order.indexOf(item) + by] : item + by;
    if (next >= 0 && next < facts.items) location.hash = address({ item: next });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    if (event.key === "?") toggleKeys();
    if (keys.open) return;
    if (event.key === "/" && !form.hidden) {
      event.preventDefault();
      form.elements.q.focus();
    } else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "u") location.hash = address({ item: null });
  });
  addEventListener("hashchange", show);
  show();
})();

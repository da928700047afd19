"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ---- theme: the system's, until the button is pressed
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = $("#theme");
  theme.setAttribute("aria-pressed", String(dark()));
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    theme.setAttribute("aria-pressed", String(dark()));
  });
  // What can be scrolled can be scrolled by keys.
  $$(".scroll").filter((box) => box.scrollWidth > box.clientWidth).forEach((box) => { box.tabIndex = 0; });
  addEventListener("beforeprint", () => $$("details").forEach((d) => { d.open = true; }));

  // ---- tables sort by a click on a heading; cells that say nothing come last either way
  const value = (cell) => {
    const text = cell.dataset.v ?? cell.textContent.trim();
    if (text === "" || text === "–") return null;
    const number = parseFloat(text);
    return Number.isNaN(number) ? text : number;
  };
  for (const table of $$("table.sortable")) {
    $$("thead th", table).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        $$("th", table.tHead).forEach((h) => h.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          const order = typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1;
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  const search = $("#f-rows");
  search?.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    $$("table.filtered tbody tr").forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
  });

  const list = $("#cards");
  if (!list) return;
  const cards = $$(".card", list);
  const texts = new Map(cards.map((card) => [card, card.textContent.toLowerCase()]));

  // ---- filters
  const field = (name) => $(`#f-${name}`);
  const form = $("#filters");
  const apply = () => {
    const text = field("text").value.trim().toLowerCase();
    const least = field("confidence").valueAsNumber / 100;
    $("#o-confidence").textContent = `${field("confidence").value} %`;
    const equal = { label: field("label").value, predicted: field("predicted").value, correct: field("correct").value, flag: field("flag").value, seen: field("seen")?.value ?? "" };
    let shown = 0;
    for (const card of cards) {
      const d = card.dataset;
      const fits = Object.entries(equal).every(([key, wanted]) => wanted === "" || d[key] === wanted);
      card.hidden = !(fits && Number(d.confidence) >= least && texts.get(card).includes(text));
      shown += !card.hidden;
    }
    const [key, sign] = field("sort").value.split(":");
    cards.sort((a, b) => Number(sign) * (Number(a.dataset[key]) - Number(b.dataset[key])) || Number(a.dataset.row) - Number(b.dataset.row));
    list.append(...cards);
    $("#count").textContent = `${shown} of ${cards.length} graphs`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();

  // ---- the score of the edge under the pointer
  const tip = $("#tip");
  let hot = [];
  const cool = () => { hot.forEach((e) => e.classList.remove("hot")); hot = []; tip.hidden = true; };
  const hover = (event, owner) => {
    const names = event.target.classList ? [...event.target.classList] : [];
    const bond = names.find((n) => n.startsWith("bond-"));
    if (!bond || !owner.dataset.scores) return cool();
    const i = Number(bond.slice(5));
    const score = owner.dataset.scores.split(" ")[i];
    if (score === undefined) return cool();
    cool();
    hot = $$(`.${bond}`, event.currentTarget);
    hot.forEach((e) => e.classList.add("hot"));
    const ends = names.filter((n) => n.startsWith("atom-")).map((n) => n.slice(5)).join("–");
    tip.textContent = `edge ${ends}: score ${Number(score).toFixed(2)}, ${owner.dataset.kept[i] === "1" ? "kept" : "not kept"}`;
    tip.hidden = false;
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - w - 4)}px`;
    tip.style.top = `${Math.max(event.clientY - h - 10, 4)}px`;
  };
  list.addEventListener("pointermove", (event) => {
    const card = event.target.closest(".card");
    if (card) hover(event, card); else cool();
  });
  list.addEventListener("pointerleave", cool);

  // ---- enlarged picture
  const dialog = $("#zoom"), stage = $(".stage", dialog), caption = $(".caption", dialog);
  let current = null, box = null, home = null;
  const setBox = () => $("svg", stage).setAttribute("viewBox", box.join(" "));
  const zoom = (factor, x = 0.5, y = 0.5) => {
    const [left, top, w, h] = box;
    const f = Math.min(Math.max(factor, (home[2] / 20) / w), (home[2] * 2) / w);
    box = [left + (w - w * f) * x, top + (h - h * f) * y, w * f, h * f];
    setBox();
  };
  const move = (x, y) => { box[0] += x * box[2]; box[1] += y * box[3]; setBox(); };
  const show = (card) => {
    current = card;
    stage.replaceChildren($("svg", card).cloneNode(true));
    caption.replaceChildren(...$$("p", card).map((p) => p.cloneNode(true)));
    home = $("svg", stage).getAttribute("viewBox").split(" ").map(Number);
    box = [...home];
    if (!dialog.open) dialog.showModal();
    dialog.append(tip); // an open dialog lies above everything outside of it
  };
  const turn = (step) => {
    const seen = cards.filter((card) => !card.hidden);
    show(seen[(seen.indexOf(current) + step + seen.length) % seen.length]);
  };
  const acts = { in: () => zoom(0.8), out: () => zoom(1.25), prev: () => turn(-1), next: () => turn(1), close: () => dialog.close() };
  list.addEventListener("click", (event) => {
    const button = event.target.closest(".picture");
    if (button) show(button.closest(".card"));
  });
  dialog.addEventListener("click", (event) => acts[event.target.dataset.do]?.());
  dialog.addEventListener("close", () => { cool(); document.body.append(tip); $(".picture", current)?.focus(); });
  dialog.addEventListener("keydown", (event) => {
    const keys = {
      "+": acts.in, "=": acts.in, "-": acts.out, PageDown: acts.next, PageUp: acts.prev,
      ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0), ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1),
    };
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const r = stage.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, (event.clientX - r.left) / r.width, (event.clientY - r.top) / r.height);
  }, { passive: false });
  let held = null;
  stage.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; stage.setPointerCapture(event.pointerId); });
  stage.addEventListener("pointerup", () => { held = null; });
  stage.addEventListener("pointermove", (event) => {
    if (!held) return hover(event, current);
    const r = stage.getBoundingClientRect();
    move((held[0] - event.clientX) / r.width, (held[1] - event.clientY) / r.height);
    held = [event.clientX, event.clientY];
  });
})();

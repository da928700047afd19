(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const list = $("#cards");
  if (!list) return;
  const PAGE = 12;
  const cards = $$(".card", list);
  const texts = new Map(cards.map((card) => [card, `${card.textContent} ${$(".copy", card)?.dataset.copy ?? ""}`.toLowerCase()]));
  const { one, many, edge } = list.dataset;

  // ---- filters and pages, kept in the address
  const form = $("#filters");
  const fields = $$("input, select", form);
  const starts = new Map(fields.map((field) => [field, field.value]));
  const nameOf = (field) => field.id.slice(2);
  const field = (name) => $(`#f-${name}`);
  let page = 0, fitting = cards;
  const pages = () => Math.max(1, Math.ceil(fitting.length / PAGE));
  const address = () => {
    const set = fields.filter((f) => f.value !== starts.get(f)).map((f) => [nameOf(f), f.value]);
    if (page) set.push(["page", page + 1]);
    return set.length ? `#gallery?${new URLSearchParams(set)}` : "#gallery";
  };
  const remember = () => {
    const now = address();
    // An address is written only where filters are in play: links to other sections stay as they are.
    if (now !== "#gallery" || location.hash.startsWith("#gallery?")) history.replaceState(null, "", now);
  };
  const show = () => {
    page = Math.min(Math.max(page, 0), pages() - 1);
    const place = new Map(fitting.map((card, i) => [card, Math.floor(i / PAGE)]));
    for (const card of cards) {
      card.hidden = !place.has(card);
      card.classList.toggle("away", place.get(card) !== page);
    }
    const of = fitting.length === cards.length ? "" : ` of ${cards.length}`;
    $("#count").textContent = `${fitting.length}${of} ${fitting.length === 1 && !of ? one : many}`;
    $("#page").textContent = `page ${page + 1} of ${pages()}`;
    for (const button of [$("#prev"), $('[data-turn="-1"]')]) button.disabled = page === 0;
    for (const button of [$("#next"), $('[data-turn="1"]')]) button.disabled = page === pages() - 1;
    $("#none").hidden = fitting.length > 0;
  };
  const apply = () => {
    const text = field("text").value.trim().toLowerCase();
    const least = field("confidence").valueAsNumber / 100;
    $("#o-confidence").textContent = `${field("confidence").value} %`;
    const equal = ["label", "predicted", "correct", "flag", "seen"].map((key) => [key, field(key)?.value ?? ""]);
    fitting = cards.filter((card) => {
      const d = card.dataset;
      return equal.every(([key, wanted]) => wanted === "" || d[key] === wanted) && Number(d.confidence) >= least && texts.get(card).includes(text);
    });
    const [key, sign] = field("sort").value.split(":");
    const order = (a, b) => Number(sign) * (Number(a.dataset[key]) - Number(b.dataset[key])) || Number(a.dataset.row) - Number(b.dataset.row);
    fitting.sort(order);
    list.append(...cards.sort(order));
    show();
  };
  const turn = (step) => { page += step; show(); remember(); };
  const restore = () => {
    const [where, given] = location.hash.split("?");
    if (where !== "#gallery" || given === undefined) return;
    const wanted = new URLSearchParams(given);
    for (const f of fields) {
      f.value = wanted.get(nameOf(f)) ?? starts.get(f);
      if (f.value === "" && f.tagName === "SELECT") f.value = starts.get(f);
    }
    apply();
    page = (parseInt(wanted.get("page"), 10) || 1) - 1;
    show();
    $("#gallery").scrollIntoView();
  };
  form.addEventListener("input", () => { page = 0; apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { page = 0; apply(); remember(); }));
  $("#all").addEventListener("click", () => form.reset());
  $("#prev").addEventListener("click", () => turn(-1));
  $("#next").addEventListener("click", () => turn(1));
  $$("[data-turn]").forEach((button) => button.addEventListener("click", () => { turn(Number(button.dataset.turn)); $("#gallery .turn").scrollIntoView(); }));
  addEventListener("hashchange", restore);
  apply();
  restore();

  // ---- the score of the edge under the pointer
  const tip = $("#tip");
  let hot = [];
  const cool = () => { hot.forEach((e) => e.classList.remove("hot")); hot = []; tip.hidden = true; };
  const hover = (event, owner) => {
    const bond = [...(event.target.classList ?? [])].find((name) => name.startsWith("bond-"));
    const i = bond && Number(bond.slice(5));
    const score = bond && owner.dataset.scores ? owner.dataset.scores.split(" ")[i] : undefined;
    cool();
    if (score === undefined) return;
    hot = $$(`.${bond}`, event.currentTarget.closest(".stage") ?? owner);
    hot.forEach((e) => e.classList.add("hot"));
    tip.textContent = `${edge}: score ${Number(score).toFixed(2)}, ${owner.dataset.kept[i] === "1" ? "highlighted" : "not highlighted"}`;
    tip.hidden = false;
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - w - 4)}px`;
    tip.style.top = `${Math.max(event.clientY - h - 10, 4)}px`;
  };
  for (const some of $$(".cards")) {
    some.addEventListener("pointermove", (event) => {
      const card = event.target.closest(".card");
      if (card) hover(event, card); else cool();
    });
    some.addEventListener("pointerleave", cool);
  }

  // ---- enlarged picture; it turns through what it was opened from
  const dialog = $("#zoom"), stage = $(".stage", dialog), caption = $(".caption", dialog);
  let current = null, box = null, home = null;
  const setBox = () => $("svg", stage).setAttribute("viewBox", box.join(" "));
  const zoom = (factor, x = 0.5, y = 0.5) => {
    const [left, top, w, h] = box;
    const f = Math.min(Math.max(factor, (home[2] / 20) / w), (home[2] * 2) / w);
    box = [left + (w - w * f) * x, top + (h - h * f) * y, w * f, h * f];
    setBox();
  };
  const enlarge = (card) => {
    current = card;
    stage.replaceChildren($("svg", card).cloneNode(true));
    caption.replaceChildren(...$$("p", card).map((p) => p.cloneNode(true)));
    home = $("svg", stage).getAttribute("viewBox").split(" ").map(Number);
    box = [...home];
    if (!dialog.open) dialog.showModal();
    dialog.append(tip); // an open dialog lies above everything outside of it
  };
  const leaf = (step) => {
    const some = current.parentElement === list ? fitting : $$(".card", current.parentElement);
    const next = some[(some.indexOf(current) + step + some.length) % some.length];
    if (some === fitting) { page = Math.floor(fitting.indexOf(next) / PAGE); show(); remember(); }
    enlarge(next);
  };
  const acts = { in: () => zoom(0.8), out: () => zoom(1.25), prev: () => leaf(-1), next: () => leaf(1), close: () => dialog.close() };
  addEventListener("click", (event) => {
    const button = event.target.closest?.(".picture");
    if (button) enlarge(button.closest(".card"));
  });
  dialog.addEventListener("click", (event) => acts[event.target.dataset.do]?.());
  dialog.addEventListener("close", () => { cool(); document.body.append(tip); $(".picture", current)?.focus(); });

  // ---- keys: arrows turn pages, of the gallery or of the enlarged picture
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const back = ["ArrowLeft", "PageUp"].includes(event.key), on = ["ArrowRight", "PageDown"].includes(event.key);
    if (dialog.open) {
      const act = back ? acts.prev : on ? acts.next : { "+": acts.in, "=": acts.in, "-": acts.out }[event.key];
      if (act) { act(); event.preventDefault(); }
      return;
    }
    if (!event.key.startsWith("Arrow") || !(back || on)) return;
    const typing = event.target.closest?.("input, select, textarea, .scroll");
    const { top, bottom } = $("#gallery").getBoundingClientRect();
    if (typing || bottom < 0 || top > innerHeight) return;
    turn(back ? -1 : 1);
    event.preventDefault();
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
    box[0] += ((held[0] - event.clientX) / r.width) * box[2];
    box[1] += ((held[1] - event.clientY) / r.height) * box[3];
    setBox();
    held = [event.clientX, event.clientY];
  });
})();

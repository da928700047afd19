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

  // ---- the section on the screen is marked in the navigation
  const links = new Map($$("nav a").map((link) => [$(link.getAttribute("href")), link]));
  const watcher = new IntersectionObserver((entries) => {
    const seen = entries.find((entry) => entry.isIntersecting);
    if (!seen) return;
    for (const link of links.values()) link.removeAttribute("aria-current");
    const link = links.get(seen.target);
    link.setAttribute("aria-current", "true");
    link.parentElement.scrollTo({ left: link.offsetLeft - 60 });
  }, { rootMargin: "-30% 0px -65% 0px" });
  for (const section of links.keys()) if (section) watcher.observe(section);

  // ---- copying; where a browser keeps the clipboard from files on disk, by a selection
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      (document.querySelector("dialog[open]") ?? document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  addEventListener("click", async (event) => {
    const button = event.target.closest?.(".copy");
    if (!button || button.dataset.said) return;
    await copy(button.dataset.copy);
    button.dataset.said = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = button.dataset.said; delete button.dataset.said; }, 1500);
  });

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
})();

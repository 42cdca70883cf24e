// Paper has no wheel, no summary to click, and is white: tables are opened, pictures are drawn for light, and what is as
// wide as the window becomes as wide as the page.
const width = 1030;  // of A4 on its side, in the pixels of style sheets

export function forPaper(main: HTMLElement): void {
  const root = document.documentElement;
  const opened: HTMLDetailsElement[] = [];
  let theme: string | undefined;
  const redraw = (): void => { dispatchEvent(new Event("resize")); };
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    redraw();
    root.style.setProperty("--print-zoom", String(Math.min(1, width / main.clientWidth)));
    for (const one of document.querySelectorAll<HTMLDetailsElement>("details:not([open])")) { one.open = true; opened.push(one); }
    for (const table of document.querySelectorAll<HTMLTableElement>(".scroll > table")) {
      const room = table.parentElement!.clientWidth;
      if (table.scrollWidth > room) table.style.setProperty("zoom", String(room / table.scrollWidth));
    }
  });
  addEventListener("afterprint", () => {
    for (const one of opened.splice(0)) one.open = false;
    for (const table of document.querySelectorAll<HTMLTableElement>(".scroll > table")) table.style.removeProperty("zoom");
    if (theme === undefined) delete root.dataset.theme; else root.dataset.theme = theme;
    redraw();
  });
}

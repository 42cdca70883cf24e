// The table behind a picture: sorted by a click on its head, filtered by a word, copied to a spreadsheet.
import { copy, h } from "./dom";
import { count, moment, oneUnit } from "./units";

// us: since the start of the run, beside the time of day where that is known.
export type Cell = string | number | null | { text: string; sort: number } | { ns: number } | { us: number };
const weight = (cell: Cell): string | number => cell === null ? -Infinity : typeof cell !== "object" ? cell : "ns" in cell ? cell.ns : "us" in cell ? cell.us : cell.sort;

export function table(caption: string, allTitles: string[], allRows: Cell[][], open = false): HTMLElement {
  // Columns without any value tell nothing.
  const filled = allTitles.map((_, i) => allRows.length === 0 || allRows.some((row) => row[i] !== null && row[i] !== ""));
  const titles = allTitles.filter((_, i) => filled[i]), rows = allRows.map((row) => row.filter((_, i) => filled[i]));
  const timesOf = (i: number): number[] => rows.flatMap((row) => { const cell = row[i]; return cell !== null && typeof cell === "object" && "ns" in cell ? [cell.ns] : []; });
  // The same of two runs is in one unit.
  const kind = (title: string): string => title.replace(/\b[AB]\b/, "");
  const units = titles.map((title) => oneUnit(titles.flatMap((other, i) => kind(other) === kind(title) ? timesOf(i) : [])));
  const timed = titles.map((_, i) => rows.some((row) => { const cell = row[i]; return cell !== null && typeof cell === "object" && "ns" in cell; }));
  const columns = titles.map((title, i) => timed[i] ? `${title}, ${units[i]!.name}` : title);
  const shown = (cell: Cell, i: number): string => cell === null ? "" : typeof cell !== "object" ? String(cell) : "ns" in cell ? units[i]!.show(cell.ns) : "us" in cell ? moment(cell.us) : cell.text;
  const most = 200, onPaper = 40;  // rows; style.css has the second number too
  let order = rows;
  let sorted = -1, down = false, word = "", all = false;
  const body = h("tbody");
  const rest = h("p", { class: "on-paper quiet" });
  const more = h("button", { click: () => { all = true; draw(); } });
  const heads = columns.map((column, i) => h("th", { scope: "col", "aria-sort": "none" }, h("button", { click: () => sort(i) }, column)));
  const numbers = columns.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] !== "string"));
  function draw(): void {
    const found = word === "" ? order : order.filter((row) => row.some((cell, i) => shown(cell, i).toLowerCase().includes(word)));
    const cut = all ? found : found.slice(0, most);
    body.replaceChildren(...cut.map((row) => h("tr", {}, ...row.map((cell, i) => h("td", numbers[i] ? { class: "number" } : shown(cell, i).length > 60 ? { class: "long" } : {}, shown(cell, i))))));
    more.hidden = cut.length === found.length;
    rest.textContent = found.length > onPaper ? `${count(found.length - onPaper)} of ${count(found.length)} rows are not printed: the page has them.` : "";
    more.textContent = `show all ${count(found.length)} rows`;
  }
  function sort(column: number): void {
    down = sorted === column ? !down : numbers[column]!;
    sorted = column;
    order = [...rows].sort((a, b) => {
      const [x, y] = [weight(a[column]!), weight(b[column]!)];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== sorted ? "none" : down ? "descending" : "ascending"));
    draw();
  }
  const filter = h("input", { type: "search", placeholder: "filter", "aria-label": `filter: ${caption}`,
    input: (event: Event) => { word = (event.target as HTMLInputElement).value.toLowerCase(); draw(); } });
  const button: HTMLButtonElement = h("button", { click: () => {
    const lines = [columns, ...order.map((row) => row.map((cell, i) => shown(cell, i)))].map((row) => row.map((cell) => cell.replaceAll(/[\t\n]/g, " ")).join("\t"));
    void copy(lines.join("\n"), button);
  } }, "copy");
  draw();
  return h("details", open ? { open: true, class: "table" } : { class: "table" }, h("summary", {}, `${caption} (${count(rows.length)} ${rows.length === 1 ? "row" : "rows"})`),
    h("div", { class: "tools" }, filter, button),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body)), more, rest);
}

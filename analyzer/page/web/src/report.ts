// `traintrace report` as a page: its rows as bars, and all columns as a table.
import { ReportValue, data } from "./data";
import { h, s, withTip } from "./dom";
import { head } from "./sheet";
import { steps } from "./steps";
import { Cell, table } from "./table";
import { bytes, count, duration, percent, roundStep } from "./units";

const names: Record<string, string> = { host_ns: "time on the host", idle_ns: "idle time of the GPUs", gpu_ns: "GPU time", lost_ns: "time lost", busy_ns: "busy time", window_ns: "time", duration_ns: "time", median_ns: "median time" };
const words = (column: string): string => column.replace(/_(ns|bytes|count|percent)$/, (all) => all === "_percent" ? ", %" : "").replaceAll("_", " ");
const isNumber = (value: ReportValue): value is number => typeof value === "number";

function cellOf(column: string, value: ReportValue): Cell {
  if (value === null) return null;
  if (Array.isArray(value)) return value.join(column === "stack" ? " < " : ", ");
  if (typeof value === "object") {
    return Object.entries(value).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, part]) => `${name} ${column.endsWith("_ns") ? duration(part) : count(part)}`).join(", ");
  }
  if (!isNumber(value)) return value;
  if (column.endsWith("_percent")) return { text: value.toFixed(1), sort: value };
  return column.endsWith("_ns") ? { ns: value } : /bytes/.test(column) ? { text: bytes(value), sort: value } : value;
}
// What a row is of: its texts, and its numbers that are names.
function nameOf(columns: string[], row: ReportValue[]): string {
  const parts = columns.flatMap((column, i) => {
    const value = row[i]!;
    if (["rank", "device", "stream", "step"].includes(column)) return value === null ? [] : [`${column} ${value}`];
    return Array.isArray(value) ? value.slice(0, 1) : typeof value === "string" && value !== "" && column !== "source" ? [value] : [];
  });
  return parts.join(", ") || "-";
}

interface Figure { value: number; name: string }
// Of each row that has any.
function figuresIn(column: string): Figure[] {
  const { columns, rows, usual } = data.report!;
  const at = columns.indexOf(column), named = columns.filter((name) => usual.includes(name) || usual.length === 0);
  return rows.flatMap((one) => isNumber(one[at]!) && one[at] > 0 ? [{ value: one[at], name: nameOf(named, named.map((name) => one[columns.indexOf(name)]!)) }] : []);
}
const shownAs = (column: string): ((value: number) => string) => column.endsWith("_ns") ? duration : /bytes/.test(column) ? bytes : count;
const biggest = (all: Figure[]): Figure[] => [...all].sort((a, b) => b.value - a.value);
const sumOf = (all: Figure[]): number => all.reduce((sum, one) => sum + one.value, 0);

// In a sentence; null where no row stands out by more than its share.
function most(column: string | undefined): HTMLElement | null {
  const all = column ? figuresIn(column) : [], [first] = biggest(all);
  if (!first || all.length < 2) return null;
  const { by, columns, rows } = data.report!, idle = columns.indexOf("idle_ns"), window = columns.indexOf("window_ns");
  if (by === "rank" && idle >= 0 && window >= 0) {  // of its own time, not of that of all ranks
    const share = (row: ReportValue[]): number => Number(row[idle] ?? 0) / Math.max(1, Number(row[window] ?? 0));
    const row = [...rows].sort((a, b) => share(b) - share(a))[0]!;
    return h("p", {}, `The GPU of rank ${row[columns.indexOf("rank")]} is idle most: ${duration(Number(row[idle]))}, ${percent(Number(row[idle]), Number(row[window]))} of its ${duration(Number(row[window]))}.`);
  }
  return h("p", {}, `Most ${names[column!] ?? words(column!)}: ${first.name}, ${shownAs(column!)(first.value)}, ${percent(first.value, sumOf(all))} of ${shownAs(column!)(sumOf(all))} in all ${count(all.length)} rows.`);
}

// Calls that had not returned have no part in the sums.
function stillOpen(): HTMLElement | null {
  const { columns, rows } = data.report!, open = columns.indexOf("open_count"), [first] = biggest(figuresIn("open_ns"));
  const calls = rows.reduce((sum, row) => sum + Number(row[open] ?? 0), 0);
  return first && calls > 0 ? h("p", {}, `Not returned when the records end: ${count(calls)} call${calls === 1 ? "" : "s"}, most of that time in ${first.name}, ${duration(first.value)} over all ranks.`) : null;
}

// The rows with most of what the report is about, as long as that is much.
function bars(column: string): HTMLElement | null {
  const all = figuresIn(column), most = 40, show = shownAs(column);
  if (all.length < 2) return null;
  const shown = data.report!.by === "rank" || data.report!.by === "step" ? all.slice(0, most) : biggest(all).slice(0, most);
  const width = Math.max(340, Math.min(1130, document.documentElement.clientWidth - 36));
  // Names stand left of their bars, on a telephone above them.
  const narrow = width < 600, row = narrow ? 38 : 22, down = narrow ? 17 : 0;
  const left = narrow ? 4 : Math.min(width * 0.5, 16 + 7.3 * Math.max(...shown.map((one) => one.name.length))), across = width - left - 130, letters = Math.floor((narrow ? width - 8 : left - 8) / 7.3);
  const longest = Math.max(...shown.map((one) => one.value)), total = sumOf(all), foot = shown.length * row + 4;
  const svg = s("svg", { viewBox: `0 0 ${width} ${foot + 20}`, width: "100%", role: "img", "aria-label": `${words(column)} by row; the table below has the same` });
  const step = roundStep(longest, Math.max(2, Math.floor(across / 120)));
  for (let value = 0; value <= longest; value += step) {
    const x = left + across * value / longest;
    svg.append(s("line", { x1: x, x2: x, y1: 0, y2: foot, stroke: "var(--line)" }), s("text", { x, y: foot + 14, class: "quiet", "text-anchor": value === 0 ? "start" : "middle" }, value === 0 ? "0" : show(value)));
  }
  shown.forEach((one, i) => {
    const box = s("rect", { x: left, y: i * row + 3 + down, width: Math.max(1, across * one.value / longest), height: 17 });
    box.style.fill = "var(--moving)";
    const name = one.name.length > letters ? `${one.name.slice(0, letters - 1)}\u2026` : one.name;
    const group = s("g", { tabindex: 0, role: "img", "aria-label": `${one.name}: ${show(one.value)}` }, s("text", { x: 2, y: i * row + 16, class: "halo" }, name), box,
      s("text", { x: left + across * one.value / longest + 6, y: i * row + 16 + down, class: "quiet halo" }, `${show(one.value)}, ${percent(one.value, total)}`));
    svg.append(withTip(group, () => [one.name, `${words(column)}: ${show(one.value)}, ${percent(one.value, total)} of all rows`]));
  });
  return h("div", {}, h("p", {}, `${names[column] ?? words(column)}${all.length > shown.length ? `: ${shown.length} of ${all.length} rows, the table has all` : ""}; % of all rows`), h("div", { class: "picture" }, svg as unknown as HTMLElement));
}

function spare(element: HTMLElement): HTMLElement {
  element.classList.add("spare");  // is not printed
  return element;
}

function figures(): HTMLElement[] {
  const { columns, rows, usual, left_out, by } = data.report!;
  const at = (names: string[]): number[] => names.map((name) => columns.indexOf(name)).filter((i) => i >= 0);
  const make = (caption: string, chosen: number[], open: boolean): HTMLElement => table(caption, chosen.map((i) => words(columns[i]!)), rows.map((row) => chosen.map((i) => cellOf(columns[i]!, row[i]!))), open);
  const main = usual.length > 0 ? at(usual) : columns.map((_, i) => i);
  const things = ["rank", "device", "stream", "step", "source"];
  const known = columns.some((column, i) => !things.includes(column) && rows.some((row) => row[i] !== null));
  return [...(rows.length > 0 && !known ? [h("p", {}, "No figure is known of these rows: what the GPUs did was not recorded. Record with TRAINTRACE_GPU_TIMELINE=cupti.")] : []), ...(rows.length === 0 ? [h("p", {}, "No rows: nothing of this sort was recorded.")] : [make(`By ${by}`, main, true)]),
    ...(main.length < columns.length && rows.length > 0 ? [spare(make("All columns", columns.map((_, i) => i), false))] : []),
    left_out > 0 ? h("p", { class: "quiet" }, `${count(left_out)} rows more are in --format=csv.`) : h("span")];
}

type Screen = [string, string, string, () => HTMLElement[] | null];
export function reportScreens(): Screen[] {
  const column = data.report!.bars.find((name) => data.report!.columns.includes(name));
  const parts: Screen = ["steps", "Steps", "Where GPU time went", () => data.steps ? steps() : null];
  // Of ranks it has bars of its own.
  const byRank = data.report!.by === "rank" && data.steps;
  return [
    ["verdict", "Report", "", () => head("REPORT", [most(column), stillOpen()], () => `${data.title!}\n${data.inputs!.map(([, path]) => path).join(" ")}`)],
    byRank ? parts : ["bars", "Bars", "Largest rows", () => { const picture = column ? bars(column) : null; return picture ? [picture] : null; }],
    ["table", "Table", "All rows", figures],
    ...(byRank ? [] : [parts]),
  ];
}

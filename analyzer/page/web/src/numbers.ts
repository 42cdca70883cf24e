// Numbers that the job fetched from its GPUs, and norms of what NCCL was given and gave: a picture for each line of code.
import uPlot from "uplot";
import { NumberChart, NumberLine, Recorded, data } from "./data";
import { css, h, hideTip, showTip } from "./dom";
import { choose, option, pinned, whenChosen } from "./state";
import { table } from "./table";
import { count } from "./units";

const finite = (value: Recorded): value is number => typeof value === "number";
const figure = (value: Recorded | undefined): string => value === undefined ? "" : String(value);
// No red, which is the colour of trouble.
const hue = (i: number, alpha = 1): string => `hsl(${40 + (170 + i * 173) % 280} 60% 45% / ${alpha})`;
const plots = new Map<string, { plot: uPlot; box: HTMLElement }>();
// "0-3, 7"
const holds = (ranks: string, rank: number): boolean => ranks.split(",").some((part) => {
  const [from, to] = part.trim().split("-").map(Number);
  return rank >= from! && rank <= (to ?? from!);
});
const who = (line: NumberLine): string => /[-,]/.test(line.ranks) ? `ranks ${line.ranks}` : `rank ${line.ranks}`;
const numbersOf = (line: NumberLine): number[] => line.n ?? line.v.map((_, i) => i + 1);
export const linkTo = (chart: NumberChart): string => `#numbers?${new URLSearchParams({ number: chart.name })}`;
// The value that the address names, of this chart.
const marked = (chart: NumberChart): number | null => option("number") === chart.name && option("value") ? Number(option("value")) : null;

// The last drawn value up to that number.
function valueAt(line: NumberLine, n: number): string {
  const numbers = numbersOf(line);
  let i = numbers.length - 1;
  while (i > 0 && numbers[i]! > n) --i;
  return numbers[i]! > n ? "none yet" : numbers[i] === n ? figure(line.v[i]) : `${figure(line.v[i])} (value ${numbers[i]})`;
}

function picture(chart: NumberChart): HTMLElement {
  const { lines } = chart;
  const xs = [...new Set(lines.flatMap(numbersOf))].sort((a, b) => a - b);
  const column = new Map(xs.map((n, i) => [n, i]));
  // Of numbers that are not drawn of a line it has none (undefined); where it is not finite it breaks off (null).
  const ys = lines.map((line) => {
    const own: (number | null | undefined)[] = new Array(xs.length).fill(undefined);
    numbersOf(line).forEach((n, i) => { const value = line.v[i]!; own[column.get(n)!] = finite(value) ? value : null; });
    return own;
  });
  const box = h("div", { class: "picture", tabindex: 0, role: "img", "data-nonfinite": chart.nonfinite,
    "aria-label": `${chart.name}: ${lines.map((line) => `${who(line)} from ${figure(line.first)} to ${figure(line.last)}${line.nonfinite ? `, NaN or Inf ${count(line.nonfinite)} times` : ""}`).slice(0, 8).join("; ")}` });
  let chosen = 0;  // the line that the keyboard is on
  const tell = (index: number, x: number, y: number): void => {
    const order = [lines[chosen]!, ...lines.filter((_, i) => i !== chosen)];
    showTip([`value ${xs[index]}`, ...order.slice(0, 12).map((line) => `${who(line)}: ${valueAt(line, xs[index]!)}`), order.length > 12 ? `and ${order.length - 12} lines more` : ""], x, y);
  };
  const plot = new uPlot({
    width: 900, height: 190, legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: { range: (_, low, high) => low === null || high === null ? [0, 1] : low === high ? [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2] : [low - (high - low) * 0.06, high + (high - low) * 0.12] } },
    series: [{ label: "value" }, ...lines.map((line, i): uPlot.Series => ({ label: who(line), width: 1.5, points: { show: line.v.length < 40, size: 4 },
      stroke: () => hue(i, pinned() === null || holds(line.ranks, pinned()!) ? 1 : 0.18) }))],
    axes: [{ stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7] },
      { stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, size: 84, values: (_, values) => values.map((v) => figure(Number(v.toPrecision(6)))) }],
    hooks: {
      draw: [(own) => drawMarks(own, chart)],
      setCursor: [(own) => {
        const { idx, left, top } = own.cursor;
        if (idx === null || idx === undefined || left === undefined || left < 0) return;
        const over = own.over.getBoundingClientRect();
        tell(idx, over.left + left, over.top + (top ?? 0));
      }],
    },
  }, [xs, ...ys] as uPlot.AlignedData, box);
  plots.set(chart.name, { plot, box });
  plot.ctx.canvas.setAttribute("aria-label", `values of ${chart.name}; the table below has them`);
  plot.over.addEventListener("mouseleave", hideTip);
  plot.over.addEventListener("click", () => keep(plot.cursor.idx ?? 0));
  box.addEventListener("blur", hideTip);
  const keep = (index: number): void => { choose("number", chart.name, "numbers"); choose("value", String(xs[index]), "numbers"); };
  let index = Math.max(0, xs.indexOf(marked(chart) ?? -1));
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") index = Math.min(xs.length - 1, index + 1);
    else if (event.key === "ArrowLeft") index = Math.max(0, index - 1);
    else if (event.key === "Home") index = 0;
    else if (event.key === "End") index = xs.length - 1;
    else if (event.key === "ArrowDown") chosen = Math.min(lines.length - 1, chosen + 1);
    else if (event.key === "ArrowUp") chosen = Math.max(0, chosen - 1);
    else if (event.key === "Enter") { keep(index); choose("rank", lines[chosen]!.ranks.split(/[-,]/)[0]!, "numbers"); return; }
    else return;
    event.preventDefault();
    const left = plot.valToPos(xs[index]!, "x");
    plot.setCursor({ left, top: 10 }, false);
    const over = plot.over.getBoundingClientRect();
    tell(index, over.left + left, over.top + 10);
  });
  const fit = (): void => plot.setSize({ width: Math.max(320, (box.parentElement?.clientWidth ?? 900) - 4), height: 190 });
  requestAnimationFrame(fit);
  addEventListener("resize", fit);
  return box;
}

// What is not finite has no place in the picture: a line from top to bottom and a cross, in the colour of trouble.
function drawMarks(plot: uPlot, chart: NumberChart): void {
  const { ctx: context, bbox } = plot;
  const named = new Set<string>();
  context.save();
  context.font = `${12 * devicePixelRatio}px sans-serif`;
  context.strokeStyle = context.fillStyle = css("--culprit");
  const size = 4 * devicePixelRatio;
  for (const line of chart.lines) {
    numbersOf(line).forEach((n, i) => {
      const value = line.v[i]!;
      if (finite(value)) return;
      const x = plot.valToPos(n, "x", true), y = bbox.top + 2 * size;
      context.globalAlpha = 0.25; context.lineWidth = devicePixelRatio;
      context.beginPath(); context.moveTo(x, bbox.top); context.lineTo(x, bbox.top + bbox.height); context.stroke();
      context.globalAlpha = 1; context.lineWidth = 2 * devicePixelRatio;
      context.beginPath(); context.moveTo(x - size, y - size); context.lineTo(x + size, y + size); context.moveTo(x - size, y + size); context.lineTo(x + size, y - size); context.stroke();
      if (named.has(line.ranks) || named.size >= 3) return;
      named.add(line.ranks);
      const label = `${value}: ${who(line)}, value ${n}`, wide = context.measureText(label).width + 3 * size;
      context.fillText(label, x - wide > bbox.left ? x - wide + size : x + 2 * size, y + (named.size - 0.6) * 14 * devicePixelRatio);
    });
  }
  const here = marked(chart);
  if (here !== null) {
    const x = plot.valToPos(here, "x", true);
    context.strokeStyle = css("--link"); context.setLineDash([4, 4]); context.lineWidth = 2;
    context.beginPath(); context.moveTo(x, bbox.top); context.lineTo(x, bbox.top + bbox.height); context.stroke();
  }
  context.restore();
}

// One line that ends far from all others, where no finding says so: a fact, not a judgement.
function apart(chart: NumberChart): string {
  const ends = chart.lines.flatMap((line) => finite(line.last) ? [{ line, last: line.last }] : []).sort((a, b) => a.last - b.last);
  if (chart.findings.length > 0 || ends.length < 3) return "";
  const told = (one: typeof ends[number], others: typeof ends): string => {
    const [low, high] = [others[0]!.last, others.at(-1)!.last], gap = Math.max(low - one.last, one.last - high);
    return gap > 3 * (high - low) && gap > 0.1 * Math.max(Math.abs(low), Math.abs(high))
      ? `${who(one.line)} ends at ${figure(one.last)}, the others at ${figure(low)} to ${figure(high)}; no finding says that this is wrong (traintrace findings numeric.rank-apart)` : "";
  };
  return told(ends.at(-1)!, ends.slice(0, -1)) || told(ends[0]!, ends.slice(1));
}

function notes(chart: NumberChart): string {
  const drawn = Math.max(...chart.lines.map((line) => line.v.length)), most = Math.max(...chart.lines.map((line) => line.count));
  return [apart(chart), chart.lines.length === 1 && chart.ranks > 1 ? `the same values on all ${chart.ranks} ranks` : "",
    drawn < most ? `${count(drawn)} of ${count(most)} values are drawn: of each part its least, its largest and the first NaN or Inf` : "",
    chart.more_ranks > 0 ? `${count(chart.more_ranks)} of ${count(chart.ranks)} ranks are left out, those most like the others; traintrace report has all` : ""].filter((note) => note !== "").join("; ");
}

function show(chart: NumberChart): HTMLElement {
  const codes = chart.findings.map((i) => data.findings[i]!.code);
  const legend = chart.lines.slice(0, 12).map((line, i) => { const mark = h("i"); mark.style.background = hue(i); return h("span", {}, mark, who(line), line.nonfinite > 0 ? `: NaN or Inf ${count(line.nonfinite)} times` : ""); });
  const note = notes(chart);
  return h("div", { class: "chart", "data-chart": chart.name }, h("h3", {}, h("a", { href: linkTo(chart) }, chart.name), " ", ...codes.map((code) => h("code", { title: `traintrace findings ${code} explains it` }, code))),
    h("div", { class: "legend" }, ...legend, chart.lines.length > legend.length ? `and ${chart.lines.length - legend.length} lines more` : null), picture(chart), note ? h("p", { class: "quiet" }, note) : null);
}

export function numbers(): HTMLElement[] | null {
  const all = data.numbers;
  if (!all || all.charts.length === 0) return null;
  const follow = (): void => {
    for (const { plot } of plots.values()) plot.redraw(false);
    const named = plots.get(option("number") ?? "");
    if (location.hash.startsWith("#numbers?") && named) requestAnimationFrame(() => named.box.parentElement!.scrollIntoView({ block: "nearest" }));
  };
  whenChosen(follow);
  requestAnimationFrame(() => requestAnimationFrame(follow));
  const rows = all.charts.flatMap((chart) => chart.lines.map((line) => [chart.name, line.ranks, line.count, ...[line.first, line.last, line.least, line.most].map((value) => value === undefined ? null : finite(value) ? value : { text: value, sort: Infinity }),
    line.most_at ?? null, line.nonfinite, line.nonfinite_at ?? null, line.nonfinite_us === undefined ? null : { us: line.nonfinite_us }, { us: line.begin }, { us: line.end }]));
  return [h("p", { class: "quiet" }, "Numbers that the job fetched from its GPUs, by the line that did; from left to right the first value to the last. Ranks with the same values share a line. "
      + "Click a picture, or move in it with the arrow keys and press Enter, for an address of that value."),
    ...(all.shortened ? [h("p", { class: "quiet" }, `Older values of ranks ${all.shortened} were overwritten: their value 1 may be of another step than that of other ranks.`)] : []),
    ...all.charts.map(show), ...(all.more_charts > 0 ? [h("p", { class: "quiet" }, `${all.more_charts} lines of code more are left out; traintrace report --by=scalar and --by=check have all`)] : []),
    table("Recorded numbers", ["line and value", "ranks", "values", "first", "last", "least", "most", "value of the most", "NaN or Inf", "first of these", "at", "from", "to"], rows)];
}

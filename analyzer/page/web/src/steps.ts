import uPlot from "uplot";
import { data, text } from "./data";
import { css, h, s, withTip } from "./dom";
import { table } from "./table";
import { duration, oneUnit, percent, rankList, roundStep } from "./units";

// Each cause has its colour on every page.
const idleCauses: Record<string, [string, string]> = {
  "host-bound": ["#cc79a7", "the host did not launch the next kernel or copy in time, and nothing below held it up"],
  "launch-call": ["#7a6fd0", "the host was inside the call that launches"],
  "launch-latency": ["#a99be8", "that call had returned, and the GPU had not begun yet"],
  "sync-induced": ["#b24a5a", "a call that waits for the GPU had just returned: nothing was queued"],
  "data-starvation": ["#8a6d3b", "the host waited for its data loader"],
  allocator: ["#5f7d2a", "the host took or gave back device memory, or loaded code"],
  "lazy-load": ["#b0672d", "the first launch of a kernel loaded its code"],
  "host-peer-wait": ["#4a6572", "the host waited for other processes, without the GPU"],
  "communication-wait": ["#c98a00", "work waited for a collective or message"],
  "straggler-wait": ["#e0b040", "work waited for a rank that came late"],
  "copy-wait": ["#2f8fc0", "work waited for a copy"],
  "kernel-gap": ["#9aa0a6", "less than 10 us between two kernels that were queued"],
  dependency: ["#777c82", "work that was queued in time waited for something that is not known"],
  "graph-internal": ["#6b8f71", "between the kernels of one CUDA graph"],
  unattributed: ["#c3c7cd", "what launched the next work was not recorded"],
};
export const hueOf = (cause: string): string => idleCauses[cause]?.[0] ?? "#9aa0a6";
const mostCauses = 8;

// What a launch that came late cost is one cause, as it is in the headline.
function mainCause(idle: number[], causes: string[]): [string, number] {
  const sums = new Map<string, number>();
  idle.forEach((ns, i) => { const name = /^(host-bound|launch-)/.test(causes[i]!) ? "late launches" : causes[i]!; sums.set(name, (sums.get(name) ?? 0) + ns); });
  return [...sums].reduce((most, one) => one[1] > most[1] ? one : most, ["", 0]);
}

function bars(): HTMLElement {
  const { devices, causes } = data.steps!;
  const shown = devices.length <= 64 ? devices : [...devices].sort((a, b) => sum(b.idle) / b.window - sum(a.idle) / a.window).slice(0, 64);
  const totals = causes.map((_, i) => devices.reduce((all, device) => all + (device.idle[i] ?? 0), 0));
  const top = causes.map((_, i) => i).filter((i) => totals[i]! > 0).sort((a, b) => totals[b]! - totals[a]!).slice(0, mostCauses);
  const longest = Math.max(1, ...shown.map((device) => device.window)), wide = document.documentElement.clientWidth > 800, right = wide ? 262 : 132;
  const [row, left, width] = [24, 66, Math.max(340, Math.min(1130, document.documentElement.clientWidth - 36))];
  const foot = shown.length * row + 4, across = width - left - right;
  const svg = s("svg", { viewBox: `0 0 ${width} ${foot + 20}`, width: "100%", role: "img", "aria-label": "where each GPU's time went" });
  const unit = oneUnit([longest]), step = roundStep(longest, Math.max(2, Math.floor(across / 110)));
  for (let ns = 0; ns <= longest; ns += step) {
    const at = left + across * ns / longest;
    svg.append(s("line", { x1: at, x2: at, y1: 0, y2: foot, stroke: "var(--line)" }), s("text", { x: at, y: foot + 14, class: "quiet", "text-anchor": ns === 0 ? "start" : "middle" }, ns === 0 ? `0 ${unit.name}` : duration(ns)));
  }
  shown.forEach((device, i) => {
    const parts: [string, string, number][] = [["compute", "var(--compute)", device.compute], ["exposed communication", "var(--communication)", device.communication], ["exposed copies", "var(--copies)", device.copies],
      ...top.map((cause): [string, string, number] => [`idle: ${causes[cause]}`, hueOf(causes[cause]!), device.idle[cause] ?? 0])];
    const group = s("g", { tabindex: 0, role: "img", "aria-label": `rank ${device.rank}: ${parts.map((p) => `${p[0]} ${percent(p[2], device.window)}`).join(", ")}` }, s("text", { x: 2, y: i * row + 16 }, `rank ${device.rank}`));
    let x = left;
    for (const [name, colour, ns] of parts) {
      const wide = across * ns / longest;
      if (wide <= 0) continue;
      const box = s("rect", { x, y: i * row + 3, width: wide, height: row - 5 });
      box.style.fill = colour;
      group.append(withTip(box, () => [`rank ${device.rank}: ${name}`, `${duration(ns)}, ${percent(ns, device.window)} of ${duration(device.window)}`, device.steps > 1 ? `${duration(ns / device.steps)} a step, ${device.steps} steps` : ""]));
      x += wide;
    }
    const [cause, lost] = mainCause(device.idle, causes), most = wide && lost > 0 ? `, ${cause} ${percent(lost, device.window)}` : "";
    group.append(s("text", { x: x + 6, y: i * row + 16, class: "quiet halo" }, `${duration(device.window)}, idle ${percent(sum(device.idle), device.window)}${most}`));
    svg.append(withTip(group, () => [`rank ${device.rank}: window ${duration(device.window)}`]));
  });
  const legend = h("div", { class: "legend" }, ...([["compute", "var(--compute)"], ["exposed communication", "var(--communication)"], ["exposed copies", "var(--copies)"], ...top.map((cause) => [`idle: ${causes[cause]}`, hueOf(causes[cause]!)])] as [string, string][])
    .map(([name, colour]) => { const i = h("i"); i.style.background = colour; return h("span", {}, i, name); }));
  const meanings = h("details", {}, h("summary", {}, "what the causes mean"), h("dl", { class: "next" }, ...top.filter((cause) => causes[cause]! in idleCauses)
    .flatMap((cause) => [h("dt", {}, causes[cause]!), h("dd", { class: "quiet" }, idleCauses[causes[cause]!]![1])])));
  return h("div", {}, legend, h("div", { class: "picture" }, svg as unknown as HTMLElement), meanings, shown.length < devices.length ? h("p", { class: "quiet" }, `the ${shown.length} idlest of ${devices.length}; the table has all`) : null);
}
const sum = (list: number[]): number => list.reduce((all, value) => all + value, 0);

function stepTimes(): HTMLElement | null {
  const every = data.steps!.steps.filter((one) => one.ns.length > 1), shown = 16;
  if (every.length === 0) return null;
  // Those whose steps are least like the middle one's, and then by rank again.
  const mean = (one: { ns: number[] }): number => sum(one.ns) / one.ns.length, middle = every.map(mean).sort((a, b) => a - b)[every.length >> 1]!;
  const all = [...every].sort((a, b) => Math.abs(mean(b) - middle) - Math.abs(mean(a) - middle)).slice(0, shown).sort((a, b) => a.rank - b.rank);
  const most = Math.max(...all.map((one) => one.ns.length));
  const wrap = h("div", { class: "picture" });
  const plot = new uPlot({ width: 900, height: 200, scales: { x: { time: false }, y: { range: (_u, _low, high) => [0, high * 1.1] } },
    series: [{ label: "step", value: (_, v) => v === null ? "" : String(v) }, ...all.map((one, i): uPlot.Series => ({ label: `rank ${one.rank}`, stroke: `hsl(${i * 137 % 360} 60% 48%)`, width: 1.5, value: (_, v) => v === null ? "" : duration(v) }))],
    axes: [{ stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }, { stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, size: 80, values: (_, values) => values.map((v) => v === 0 ? "0" : duration(v)) }] },
    [Array.from({ length: most }, (_, i) => i + 1), ...all.map((one) => Array.from({ length: most }, (_, i) => one.ns[i] ?? null))] as uPlot.AlignedData, wrap);
  plot.ctx.canvas.setAttribute("aria-label", "step time by rank");
  const fit = (): void => plot.setSize({ width: Math.max(320, (wrap.parentElement?.clientWidth ?? 900) - 4), height: 200 });
  requestAnimationFrame(fit);
  addEventListener("resize", fit);
  return every.length > all.length ? h("div", {}, h("p", { class: "quiet" }, `The ${all.length} ranks of ${every.length} whose steps differ most from the usual length.`), wrap) : wrap;
}

// A column for each collective, a row for each rank: dark came late; framed red made it late itself, grey only came last.
function arrivals(): HTMLElement | null {
  const { ranks, late, operations, delayed_by } = data.steps!.arrivals;
  if (late.length === 0) return null;
  // What was before the first one is not recorded: ranks may enter the recording far apart, and all else would be pale.
  const most = Math.max(1, ...(late.length > 1 ? late.slice(1) : late).flat());
  const [width, left, row] = [Math.max(340, Math.min(1130, document.documentElement.clientWidth - 36)), 64, Math.max(6, Math.min(18, 600 / ranks.length))];
  const cell = (width - left) / late.length;
  const svg = s("svg", { viewBox: `0 0 ${width} ${ranks.length * row + 4}`, width: "100%", role: "img", "aria-label": "how late each rank came to each collective" });
  ranks.forEach((rank, i) => {
    if (row > 11) svg.append(s("text", { x: 2, y: i * row + row - 4 }, `rank ${rank}`));
    late.forEach((column, k) => {
      const ns = column[i]!, last = ns > 0 && ns === Math.max(...column), own = delayed_by[k]!.includes(i);
      const box = s("rect", { x: left + k * cell, y: i * row + 1, width: Math.max(0.5, cell - (cell > 4 ? 1 : 0)), height: row - 1 });
      box.style.fill = "var(--communication)"; box.style.fillOpacity = String(0.08 + 0.92 * Math.min(1, ns / most));
      if ((own || last) && cell > 4) { box.style.stroke = own ? "var(--culprit)" : "var(--quiet)"; box.style.strokeWidth = own ? "2.5" : "1"; }
      svg.append(withTip(box, () => [`rank ${rank}: ${duration(ns)} after the first`, `collective ${k + 1}: ${text(operations[k]!)}`, own ? "made it late itself" : last ? "came last, held up by what was before" : ""]));
    });
  });
  return h("div", {}, h("p", { class: "quiet" }, `From left to right collectives 1 to ${late.length}; the darker, the later the rank came: the darkest ${duration(most)} or more after the first.${cell > 4 ? " Red frame: its own host or GPU took longer since the one before, and made it late, as latency.straggler counts. Grey frame: it only came last, held up by what was before, in the first one by what was before the recording." : ""}`),
    h("div", { class: "picture" }, svg as unknown as HTMLElement));
}

export function steps(): HTMLElement[] | null {
  const all = data.steps;
  if (!all || all.devices.length === 0) return null;
  const times = stepTimes(), matrix = arrivals();
  return [bars(), table("Time of each GPU", ["rank", "GPU", "steps", "window", "compute", "exposed communication", "exposed copies", "idle", "mostly"], all.devices.map((d) => [d.rank, d.device, d.steps,
      ...[d.window, d.compute, d.communication, d.copies, sum(d.idle)].map((ns) => ({ ns })), mainCause(d.idle, all.causes)[0]])),
    ...(times ? [h("h3", {}, "Step time"), times] : []),
    ...(matrix ? [h("h3", {}, "Who came late to which collective"), matrix, table("Lateness", ["collective", "operation", "rank that came last", "after the first", "made late by"], all.arrivals.late.map((column, k) => {
      const last = Math.max(...column);
      return [k + 1, text(all.arrivals.operations[k]!), all.arrivals.ranks[column.indexOf(last)]!, { ns: last }, rankList(all.arrivals.delayed_by[k]!.map((i) => all.arrivals.ranks[i]!))];
    }))] : [all.arrivals.why_not ? h("p", { class: "quiet" }, `Who came late to collectives is not known: ${all.arrivals.why_not}`) : h("span")]),
    table("Idle time by cause and line", ["lost", "cause", "call", "at", "gaps", "ranks"], all.sites.map((site) => [{ ns: site.ns }, site.cause, text(site.call), text(site.place), site.gaps, site.ranks]), true)];
}

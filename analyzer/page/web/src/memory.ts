import uPlot from "uplot";
import { Memory, data, text } from "./data";
import { css, h, s, withTip } from "./dom";
import { Slice, icicle } from "./icicle";
import { choose, option, pinned } from "./state";
import { table } from "./table";
import { at, bytes, moment, percent, rankList } from "./units";

const hues = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d3b", "#7a6fd0", "#5f7d2a", "#b24a5a", "#8b9097"];

const binary = Array.from({ length: 50 }, (_, i) => 2 ** i);  // bytes between two ticks

function overTime(memory: Memory): HTMLElement {
  const { bands } = memory.curve;
  let { t, bytes: held } = memory.curve;
  const wrap = h("div", { class: "picture" });
  if (t.length < 2) return wrap;
  const until = memory.failed?.t ?? 0;
  if (until > t.at(-1)!) {  // nothing changed until it failed
    t = [...t, until];
    held = held.map((band) => [...band, band.at(-1)!]);
  }
  // Stacked: each line is the sum of those below it.
  const sums: number[][] = [];
  for (const band of held) sums.push(band.map((value, i) => value + (sums.at(-1)?.[i] ?? 0)));
  const seconds = t.map((us) => us / 1e6);
  const limit = memory.failed?.total;
  const wanted = memory.failed ? memory.failed.bytes : 0;
  const series: uPlot.Series[] = [{ label: "time", value: (_, v) => v === null ? "" : `+${v.toFixed(3)} s` }];
  const lines: (number | null)[][] = [];
  for (let i = bands.length - 1; i >= 0; --i) {  // the tallest first, so that the others are drawn over it
    const own = held[i]!;
    series.push({ label: bands[i]!, stroke: hues[i % hues.length]!, fill: hues[i % hues.length]!, width: 1, paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false }, value: (_u, _v, _s, at) => at === null ? "" : bytes(own[at!] ?? 0) });
    lines.push(sums[i]!);
  }
  const top = Math.max(...(sums.at(-1) ?? [1]));
  const options: uPlot.Options = {
    width: 900, height: 260, padding: [null, 36, null, null], series, scales: { x: { time: false }, y: { range: [0, Math.max(top * 1.05, limit ?? 0, top + wanted) * 1.04] } },
    axes: [{ stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, space: 110, values: (_, values) => { const step = values.length > 1 ? values[1]! - values[0]! : 1; let digits = 0; while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) ++digits; return values.map((v) => `+${v.toFixed(digits)} s`); } },
      { stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, size: 84, incrs: binary, values: (_, values) => values.map((v) => v === 0 ? "0" : bytes(v)) }],
    hooks: { draw: [(plot) => {
      const context = plot.ctx;
      context.save();
      context.font = `${12 * devicePixelRatio}px sans-serif`;
      context.textAlign = "left";
      const y = (value: number): number => plot.valToPos(value, "y", true);
      if (limit) {
        context.strokeStyle = css("--culprit"); context.setLineDash([6, 4]); context.lineWidth = 2;
        context.beginPath(); context.moveTo(plot.bbox.left, y(limit)); context.lineTo(plot.bbox.left + plot.bbox.width, y(limit)); context.stroke(); context.setLineDash([]);
        context.fillStyle = css("--culprit"); context.fillText(`all of the GPU: ${bytes(limit)}`, plot.bbox.left + 6, y(limit) + (y(limit) + 16 * devicePixelRatio < plot.bbox.top + plot.bbox.height ? 14 : -6) * devicePixelRatio);
      }
      if (memory.failed) {
        const x = plot.valToPos(memory.failed.t / 1e6, "x", true);
        let under = 0;
        for (let i = 0; i < t.length && t[i]! <= memory.failed.t; ++i) under = sums.at(-1)![i]!;
        context.fillStyle = css("--culprit");
        context.globalAlpha = 0.75; context.fillRect(x - 5, y(under + wanted), 10, y(under) - y(under + wanted)); context.globalAlpha = 1;
        const label = `failed at ${at(memory.failed.t)}: ${bytes(wanted)}`;
        const letters = 14 * devicePixelRatio;
        let foot = Math.max(y(under + wanted) - 4, plot.bbox.top + 10 * devicePixelRatio);
        // The line of the limit is not to go through it: below, where no other label is.
        if (limit && foot > y(limit) - 3 && foot - letters < y(limit) + 3) foot = y(limit) + letters;
        context.fillText(label, Math.min(x + 8, plot.bbox.left + plot.bbox.width - context.measureText(label).width - 12), foot);
      }
      context.restore();
    }] },
  };
  const plot = new uPlot(options, [seconds, ...lines] as uPlot.AlignedData, wrap);
  plot.ctx.canvas.setAttribute("aria-label", "memory in use over time, by owner and place; the table below has what was in use");
  const fit = (): void => plot.setSize({ width: Math.max(320, (wrap.parentElement?.clientWidth ?? 900) - 4), height: 260 });
  requestAnimationFrame(fit);
  addEventListener("resize", fit);
  return wrap;
}

function flame(memory: Memory): HTMLElement {
  const root: Slice = { name: `${bytes(memory.flames.reduce((sum, one) => sum + one.b, 0))} in use`, value: 0, lines: [], children: [] };
  for (const one of memory.flames) {
    let node = root;
    node.value += one.b;
    for (const index of one.f) {
      let next = node.children.find((child) => child.name === text(index));
      if (!next) node.children.push(next = { name: text(index), value: 0, lines: [], children: [] });
      next.value += one.b;
      node = next;
    }
  }
  const finish = (slice: Slice): void => {
    slice.lines = [`${bytes(slice.value)}, ${percent(slice.value, root.value)}`];
    slice.children.sort((a, b) => b.value - a.value);
    slice.children.forEach(finish);
  };
  finish(root);
  return icicle(root, "memory by owner and stack");
}

// Addresses from left to right and top to bottom: gaps are what no request fitted into.
function map(memory: Memory): HTMLElement {
  const last = memory.blocks.at(-1);
  const end = last ? last[0] + last[1] : 1;
  const [width, row, rows] = [1000, 16, 12];
  const svg = s("svg", { viewBox: `0 0 ${width} ${row * rows}`, width: "100%", role: "img", "aria-label": "blocks by address" });
  const names = [...new Set(memory.blocks.map((block) => block[2]))];
  const per = end / rows;
  for (const [address, size, owner] of memory.blocks) {
    for (let from = address; from < address + size;) {
      const line = Math.min(rows - 1, Math.floor(from / per));
      const to = Math.min(address + size, line === rows - 1 ? Infinity : (line + 1) * per);
      const box = s("rect", { x: (from - line * per) / per * width, y: line * row + 1, width: Math.max(0.6, (to - from) / per * width), height: row - 2 });
      box.style.fill = hues[names.indexOf(owner) % hues.length]!;
      svg.append(withTip(box, () => [text(owner), bytes(size), `at ${bytes(address)} from the first`]));
      if (to <= from) break;
      from = to;
    }
  }
  return h("div", { class: "picture" }, svg as unknown as HTMLElement);
}

// From the first block to the last.
function mapKey(memory: Memory): string {
  const last = memory.blocks.at(-1)!, end = last[0] + last[1], held = memory.blocks.reduce((sum, block) => sum + block[1], 0);
  const gaps = memory.blocks.slice(1).map((block, i) => block[0] - memory.blocks[i]![0] - memory.blocks[i]![1]);
  const wanted = memory.failed ? `, where a block of ${bytes(memory.failed.bytes)} was wanted` : "";
  return `Addresses from left to right and from line to line, ${bytes(Math.round(end / 12))} each. Coloured: ${bytes(held)} in use, in ${memory.blocks.length.toLocaleString("en-US")} blocks. Empty: ${bytes(Math.max(0, end - held))} between them, the widest gap ${bytes(Math.max(0, ...gaps))}${wanted}.`;
}

// A rank may hold memory on another GPU than its own, as a stray context does.
function nameOf(one: Memory): string {
  const own = data.ranks?.gpu[data.ranks.rank.indexOf(one.rank)] ?? -1;
  return `rank ${one.rank}, ${own >= 0 && own !== one.device ? `memory on GPU ${one.device} (the rank's own is GPU ${own})` : `GPU ${one.device}`}`;
}
const beginning = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
function shortage(failed: NonNullable<Memory["failed"]>): string {
  const again = failed.last - failed.t > 1e5 ? `, and again and again until ${moment(failed.last)}` : "";
  const free = failed.free ?? 0, whole = failed.total === undefined ? "" : ` of ${bytes(failed.total)}`;
  if (failed.free !== undefined && failed.cached && free + failed.cached >= failed.bytes) {
    return `wanted ${bytes(failed.bytes)} at ${moment(failed.t)}${again}${failed.place ? ` (${failed.place})` : ""}; ${bytes(free)}${whole} were free on the device, and ${bytes(failed.cached)} lay unused in PyTorch's allocator: enough together, but not in one piece.`;
  }
  const room = failed.free === undefined ? failed.total === undefined ? "how much the GPU has was not recorded" : `the GPU has ${bytes(failed.total)} in all; how much of it was free was not recorded`
    : `${bytes(free)}${whole} were free: ${bytes(Math.max(0, failed.bytes - free))} missing`
      + (failed.cached ? `; ${bytes(failed.cached)} more lay unused in PyTorch's allocator` : "");
  return `wanted ${bytes(failed.bytes)} at ${moment(failed.t)}${again}${failed.place ? ` (${failed.place})` : ""}; ${room}.`;
}

// What nobody that is known held, and what was free, where the failure tells.
function freeRows(one: Memory): [number, number | null, string][] {
  const { free, total } = one.failed ?? {};
  if (free === undefined || total === undefined) return [];
  const others = total - free - one.flames.reduce((sum, flame) => sum + flame.b, 0);
  return [...(others > 0 ? [[others, null, "not in use by the job: PyTorch's allocator, contexts, other processes"] as [number, null, string]] : []), [free, null, "free"]];
}

export function memory(): HTMLElement[] | null {
  if (data.memory.length === 0) return null;
  const place = h("div");
  const named = (): Memory => data.memory.find((one) => String(one.rank) === (option("memory") ?? "")) ?? data.memory.find((one) => one.rank === pinned()) ?? data.memory[0]!;
  const draw = (): void => {
    const one = named();
    const failed = one.failed;
    place.replaceChildren(
      h("p", {}, `${beginning(nameOf(one))}: ${failed ? shortage(failed) : `most in use ${bytes(one.own_peak ?? one.peak)}${one.own_peak === undefined ? `, at ${moment(one.peak_at)}` :
        `, as PyTorch's allocator counts; when and where it was allocated is known of ${bytes(one.peak)}`}.`}`),
      one.owners.length === 0 ? h("span") : h("p", { class: "note" }, h("b", {}, `GPU ${one.device} is that of rank${one.owners.length === 1 ? "" : "s"} ${rankList(one.owners)}, too: `),
        "they share its memory. Let each process choose its GPU before anything else (torch.cuda.set_device(local_rank))."),
      one.curve.t.length > 1 ? overTime(one) : h("p", { class: "quiet" }, "No history: when these were allocated was not recorded."),
      h("h3", {}, failed ? "What was in use when it failed" : "What was in use at the peak"), one.flames.length > 0 ? flame(one) : h("p", { class: "quiet" }, "Nothing is known to have been in use."),
      one.blocks.length > 1 ? h("details", data.findings[data.leading]?.code.includes("fragment") ? { open: true } : {}, h("summary", {}, "where it lay: blocks by address"), h("p", { class: "quiet" }, mapKey(one)), map(one)) : h("span"),
      table(`Memory in use, rank ${one.rank}`, ["bytes", "part", "blocks", "owner and place"], [...one.flames.map((f): [number, number | null, string] => [f.b, f.n, f.f.map(text).join(" > ")]), ...freeRows(one)]
        .map(([size, blocks, what], _i, rows) => [{ text: bytes(size), sort: size }, percent(size, rows.reduce((sum, row) => sum + row[0], 0)), blocks, what])));
  };
  const select = h("select", { "aria-label": "rank", change: (event: Event) => { choose("memory", (event.target as HTMLSelectElement).value); draw(); } },
    ...data.memory.map((one) => h("option", { value: one.rank, selected: one === named() }, `${nameOf(one)}${one.failed ? ": failed" : ""}`)));
  draw();
  return [h("div", { class: "tools" }, select), place];
}

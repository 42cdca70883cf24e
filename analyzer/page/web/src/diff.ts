// `traintrace diff` as a page: two bars for each thing that both runs have.
import { Diff, data } from "./data";
import { h, s, withTip } from "./dom";
import { head } from "./sheet";
import { hueOf } from "./steps";
import { table } from "./table";
import { bytes, count, duration, percent, rankList, roundStep } from "./units";

type Part = [name: string, colour: string, value: number];
const kinds: Record<string, string> = { same: "the same", differs: "differ", ends: "one ends", unknown: "not known" };
const hueOfBucket = (bucket: string, idle: boolean): string => idle ? hueOf(bucket) : bucket.includes("communication") ? "var(--communication)" : bucket.includes("memory") ? "var(--copies)" : "var(--compute)";

// One above the other, on one axis.
function pair(label: string, a: Part[], b: Part[], show: (value: number) => string): HTMLElement {
  const sum = (parts: Part[]): number => parts.reduce((all, part) => all + part[2], 0);
  const longest = Math.max(1, sum(a), sum(b)), row = 30, left = 30, right = 130, foot = 2 * row + 4;
  const width = Math.max(340, Math.min(1130, document.documentElement.clientWidth - 36)), across = width - left - right;
  const svg = s("svg", { viewBox: `0 0 ${width} ${foot + 20}`, width: "100%", role: "img", "aria-label": `${label}: A ${show(sum(a))}, B ${show(sum(b))}` });
  const step = roundStep(longest, Math.max(2, Math.floor(across / 120)));
  for (let value = 0; value <= longest; value += step) {
    const x = left + across * value / longest;
    svg.append(s("line", { x1: x, x2: x, y1: 0, y2: foot, stroke: "var(--line)" }), s("text", { x, y: foot + 14, class: "quiet", "text-anchor": value === 0 ? "start" : "middle" }, value === 0 ? "0" : show(value)));
  }
  ([["A", a], ["B", b]] as [string, Part[]][]).forEach(([name, parts], i) => {
    let x = left;
    svg.append(s("text", { x: 6, y: i * row + 20, "font-weight": 700 }, name));
    for (const [what, colour, value] of parts) {
      const wide = across * value / longest;
      if (wide <= 0) continue;
      const box = s("rect", { x, y: i * row + 4, width: wide, height: row - 7, tabindex: 0 });
      box.style.fill = colour;
      svg.append(withTip(box, () => [`${name}: ${what}`, `${show(value)}, ${percent(value, sum(parts))} of ${show(sum(parts))}`]));
      x += wide;
    }
    svg.append(s("text", { x: x + 6, y: i * row + 20, class: "quiet halo" }, show(sum(parts))));
  });
  const names = new Map([...a, ...b].filter((part) => part[2] > longest / 1000).map((part) => [part[0], part[1]]));
  const legend = h("div", { class: "legend" }, ...[...names].map(([name, colour]) => { const i = h("i"); i.style.background = colour; return h("span", {}, i, name); }));
  return h("div", {}, legend, h("div", { class: "picture" }, svg as unknown as HTMLElement));
}
const change = (a: number, b: number, show: (value: number) => string): { text: string; sort: number } => ({ text: b === a ? "0" : `${b > a ? "+" : "-"}${show(Math.abs(b - a))}`, sort: b - a });

const share = (value: number): { text: string; sort: number } => ({ text: `${value.toFixed(1)} %`, sort: value });

function time(diff: Diff): HTMLElement[] | null {
  const all = diff.time;
  if (!all) return null;
  const of = (side: "a_ns" | "b_ns"): Part[] => all.buckets.map((one) => [`${one.idle ? "idle: " : ""}${one.bucket}`, hueOfBucket(one.bucket, one.idle), one[side]]);
  const kernels = [...all.new_kernels.map((one) => ["only in B", one] as const), ...all.vanished_kernels.map((one) => ["only in A", one] as const)].sort((a, b) => b[1].ns - a[1].ns);
  return [h("p", {}, `GPU time ${all.per === "step" ? "of a step" : "in all that was recorded"}, ${all.ranks.length === 1 ? "rank" : "mean of ranks"} ${rankList(all.ranks)}: A ${duration(all.window.a_ns)}, B ${duration(all.window.b_ns)}.`), pair("GPU time", of("a_ns"), of("b_ns"), duration),
    table("Parts of the time", ["part", "A", "B", "change", "remark"], all.buckets.filter((one) => one.a_ns > 0 || one.b_ns > 0).map((one) => [`${one.idle ? "idle: " : ""}${one.bucket}`, { ns: one.a_ns }, { ns: one.b_ns }, change(one.a_ns, one.b_ns, duration), one.grew ? "grew" : ""]), true),
    table("Kernels and copies by what they are", ["what", "A", "B", "change", "of A", "of B"], all.kernels.filter((one) => one.a_ns > 0 || one.b_ns > 0).map((one) => [one.category, { ns: one.a_ns }, { ns: one.b_ns }, change(one.a_ns, one.b_ns, duration), share(one.a_percent), share(one.b_percent)]), true),
    ...(kernels.length > 0 ? [table("Kernels that only one has", ["run", "time", "kernel"], kernels.map(([run, one]) => [run, { ns: one.ns }, one.name]))] : []),
    ...(all.synchronisations.length > 0 ? [table("Synchronisation that changed", ["change", "call", "at", "times in A", "times in B", "blocked in A", "blocked in B"],
      all.synchronisations.map((one) => [one.change, one.call, one.site, one.a_count, one.b_count, { ns: one.a_blocked_ns }, { ns: one.b_blocked_ns }]), true)] : [])];
}

function collectives(diff: Diff): HTMLElement[] | null {
  const call = (side: Diff["sequences"][0]["a"]): string => side.operation ? `${side.operation}${side.count !== undefined ? ` of ${count(side.count)} ${side.type ?? ""}` : ""}${side.reduction ? `, ${side.reduction}` : ""}${side.where ? ` at ${side.where}` : ""}` : "nothing";
  const rows = diff.sequences.map((one) => [rankList(one.ranks), one.communicator, kinds[one.kind]!, one.kind === "same" || one.sequence === undefined ? null : `#${one.sequence}${one.sequence_last !== undefined ? `-${one.sequence_last}` : ""}`,
    one.a.collectives, one.b.collectives, one.kind === "same" ? "" : call(one.a), one.kind === "same" ? "" : call(one.b)]);
  const only = [...diff.only_in_a.map((name) => `communicator ${name}: only in A`), ...diff.only_in_b.map((name) => `communicator ${name}: only in B`)];
  if (rows.length + only.length === 0) return null;
  const most = Math.max(...diff.sequences.map((one) => Math.max(one.a.collectives, one.b.collectives)), 1);
  const first = diff.sequences.find((one) => one.kind !== "same");
  return [...(first && most > 1 ? [h("p", {}, `Collectives of rank${first.ranks.length === 1 ? "" : "s"} ${rankList(first.ranks)} on communicator ${first.communicator}, the first that differs:`),
    pair("collectives", [["collectives", "var(--moving)", first.a.collectives]], [["collectives", "var(--moving)", first.b.collectives]], (value) => count(Math.round(value)))] : []),
    ...(rows.length > 0 ? [table("Collectives by communicator", ["ranks", "communicator", "sequences", "first difference", "calls in A", "calls in B", "A calls there", "B calls there"], rows, true)] : []),
    ...only.map((line) => h("p", {}, line))];
}

function memory(diff: Diff): HTMLElement[] | null {
  const all = diff.memory ?? [];
  if (all.length === 0) return null;
  const worst = all[0]!, bar = (bytes: number): Part[] => [["peak of PyTorch's memory", "var(--moving)", bytes]];
  return [h("p", {}, `Peak of PyTorch's memory, rank ${worst.a.rank}${worst.b.rank === worst.a.rank ? "" : ` in A, ${worst.b.rank} in B`}:`), pair("peak memory", bar(worst.a.peak_bytes), bar(worst.b.peak_bytes), (value) => bytes(Math.round(value))),
    table("Peak memory of ranks that differ", ["rank", "A", "B", "change", "A allocated first", "B allocated first"], all.map((one) => [one.a.rank, { text: bytes(one.a.peak_bytes), sort: one.a.peak_bytes }, { text: bytes(one.b.peak_bytes), sort: one.b.peak_bytes },
      change(one.a.peak_bytes, one.b.peak_bytes, bytes), ...[one.a, one.b].map((side) => side.where ? `${bytes(side.bytes ?? 0)} at ${side.where}` : "")]), true)];
}

function values(diff: Diff): HTMLElement[] | null {
  const all = diff.values;
  if (!all) return null;
  return [h("p", {}, `${count(all.same_count)} series of recorded values are the same${all.incomplete_count > 0 ? `, ${count(all.incomplete_count)} cannot be compared as a whole` : ""}.`),
    ...(all.differences.length > 0 ? [table("First values that differ", ["what", "ranks", "at", "number", "A", "B"], all.differences.map((one) => [one.kind + (one.operation ? ` of ${one.operation}` : ""), rankList(one.ranks), one.where, one.number,
      ...[one.a, one.b].map((value) => value === undefined ? "" : String(value))]), true)] : [])];
}

export function diffScreens(): [string, string, string, () => HTMLElement[] | null][] {
  const diff = data.diff!;
  return [
    ["verdict", "Difference", "", () => head("DIFFERENCE", [h("p", { class: "quiet" }, "B, compared with A")], () => `${data.title!}\n${data.inputs!.map(([name, path]) => `${name}: ${path}`).join("\n")}`)],
    ["collectives", "Collectives", "Collective calls", () => collectives(diff)],
    ["time", "Time", "Where GPU time went", () => time(diff)],
    ["memory", "Memory", "Memory", () => memory(diff)],
    ["values", "Values", "Recorded values", () => values(diff)],
  ];
}

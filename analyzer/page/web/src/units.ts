import { data } from "./data";

const figures = (value: number): string => Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
export function bytes(value: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; ++unit; }
  return `${unit === 0 ? value : figures(value)} ${units[unit]}`;
}
export function duration(ns: number): string {
  if (ns < 0) return "-" + duration(-ns);
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${figures(Math.round(ns / 10) / 100)} us`;
  if (ns < 1e9) return `${figures(Math.round(ns / 1e4) / 100)} ms`;
  return ns < 120e9 ? `${(ns / 1e9).toFixed(ns < 10e9 ? 2 : 1)} s` : `${Math.floor(Math.round(ns / 1e9) / 60)} min ${Math.round(ns / 1e9) % 60} s`;
}
// Sizes in a sentence: "cudaMalloc of 335544320 bytes" -> "cudaMalloc of 320 MiB".
export const forPeople = (sentence: string): string => sentence.replace(/(^|[ (])(\d{4,15}) bytes/g, (all, before: string, size: string) => Number(size) < 4096 ? all : before + bytes(Number(size)));
// The times of a column in one unit, that of the middle one, so that they can be compared by their length.
export function oneUnit(all: number[]): { name: string; show: (ns: number) => string } {
  const some = all.filter((ns) => ns > 0).sort((a, b) => a - b), middle = some[some.length >> 1] ?? 0, largest = some.at(-1) ?? 0;
  let unit: [string, number] = ["ns", 1];
  for (const next of [["us", 1e3], ["ms", 1e6], ["s", 1e9]] as [string, number][]) if (middle >= next[1] || largest >= 1e4 * unit[1]) unit = next;
  const digits = unit[1] === 1 ? 0 : middle < unit[1] ? 3 : middle < 10 * unit[1] ? 2 : middle < 1000 * unit[1] ? 1 : 0;
  return { name: unit[0], show: (ns) => (ns / unit[1]).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) };
}
// Between the marks of an axis: 1, 2 or 5 of a power of ten, of which `most` are enough for all.
export function roundStep(all: number, most: number): number {
  const least = all / most, power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least)!;
}
export const at = (us: number): string => `${us < 0 ? "-" : "+"}${(Math.abs(us) / 1e6).toFixed(3)} s`;
// "+1.755 s (14:02:11.755 UTC)"; only the first part where the start of the run is not known.
export function moment(us: number): string {
  const clock = utc(us);
  return clock ? `${at(us)} (${clock})` : at(us);
}
export function utc(us: number): string {
  const start = data.run.start_ns / 1e6;
  return start < 1e12 || start > 7.2e12 ? "" : `${new Date(start + us / 1e3).toISOString().slice(11, 23)} UTC`;
}
export const count = (value: number): string => value.toLocaleString("en-US");
export function percent(part: number, whole: number): string {
  const share = whole > 0 ? Math.round(100 * part / whole) : 0;
  return part > 0 && share === 0 ? "< 1 %" : `${share} %`;
}
// "0-3, 7"
export function rankList(ranks: number[]): string {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let end = i;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end]! + 1) ++end;
    parts.push(end > i + 1 ? `${sorted[i]}-${sorted[end]}` : sorted.slice(i, end + 1).join(", "));
    i = end + 1;
  }
  return parts.join(", ");
}

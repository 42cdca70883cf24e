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
  return ns < 120e9 ? `${(ns / 1e9).toFixed(ns < 10e9 ? 2 : 1)} s` : `${Math.floor(ns / 60e9)} min ${Math.round(ns / 1e9) % 60} s`;
}
// Sizes in a sentence: "cudaMalloc of 335544320 bytes" -> "cudaMalloc of 320 MiB".
export const forPeople = (sentence: string): string => sentence.replace(/(^|[ (])(\d{4,15}) bytes/g, (all, before: string, size: string) => Number(size) < 4096 ? all : before + bytes(Number(size)));
export const at = (us: number): string => `${us < 0 ? "-" : "+"}${(Math.abs(us) / 1e6).toFixed(3)} s`;
export const count = (value: number): string => value.toLocaleString("en-US");
export const percent = (part: number, whole: number): string => `${whole > 0 ? Math.round(100 * part / whole) : 0} %`;
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

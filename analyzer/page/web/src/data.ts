// What traintrace embeds (analyzer/page/page_data.h).  Times are us since the start of the run, other durations ns.
export interface Frame { file: string; path: string; line: number; function: string }
export interface Actor {
  ranks: number[]; title: string; culprit: boolean; who: string; doing: string; framesAre?: string; frames: Frame[];
  source: { n: number; text: string; marked: boolean }[];
}
export interface Card {
  kind: string; headline: string; certainty: string; notes: string[]; why: string[]; advice: string; actors: Actor[];
  next: { command: string; purpose: string }[];
}
export interface Owner { bytes: number; percent?: number; class?: string; where?: string; growth_bytes_per_step?: number }
export interface Finding {
  code: string; severity: "error" | "warning" | "info"; certainty: string; title: string; culprits: number[]; victims: number[]; sides?: number[][];
  where: { rank: number; file: string; line?: number; function: string }[]; values: Record<string, number>; evidence: string[];
  advice?: string; owners?: Owner[]; root: boolean;
  sequence?: number; sequence_last?: number; operation?: string; communicator?: { name: string }; communicators?: { name: string }[];
}
export interface Ranks {
  rank: number[]; host: number[]; pid: number[]; gpu: number[]; state: number[]; last: number[]; place: number[]; at: number[];
  peak: (number | null)[]; ended: (number | null)[]; exited: (number | null)[]; late: (number | null)[]; step: (number | null)[]; missing: number[];
}
export interface Communicator { name: string; size: number; leading: boolean; ranks: number[]; seq: number[] }
// begin, end, name of the communicator, sequence, text, kind; 1: the headline is about it
export type Bar = [number, number, number, number, number, "done" | "enqueued" | "waits" | "instead", 1?];
export interface Lanes { parted: number | null; end: number; lanes: { rank: number; role: string; last?: number; died?: number; exited?: number; silent?: number; bars: Bar[] }[] }
// doing, at: of what waits for nobody.  since: us; waited: ns.  part: how those that are waited for stand to it.
export interface Waits {
  nodes: { ranks: number[]; culprit: boolean; doing: string; at: string }[];
  edges: { from: number; to: number; text: string; operation: string; sequence: number; communicator: string; message: boolean; place: string; since: number | null; waited: number | null; part: string }[];
  left_out: number;
}
export interface StackNode { f: number; p: number; l: number; u: number; n: number; r: number; x?: number; m?: number; c?: StackNode[] }
export interface Stacks { now: boolean; ranks: number; tree: StackNode[] }
export interface Memory {
  rank: number; device: number; peak: number; peak_at: number;
  owners: number[];  // of other processes, whose own that device is
  own_peak?: number;  // by the allocator's own count, where that is more than is known by place
  failed?: { t: number; last: number; bytes: number; place: string; free?: number; total?: number; cached?: number };
  curve: { t: number[]; bands: string[]; bytes: number[][] };
  flames: { b: number; n: number; f: number[] }[]; blocks: [number, number, number][];
}
export interface Steps {
  causes: string[];
  devices: { rank: number; device: number; steps: number; window: number; compute: number; communication: number; copies: number; idle: number[] }[];
  steps: { rank: number; ns: number[] }[];
  sites: { cause: string; call: number; place: number; ns: number; gaps: number; ranks: string }[];
  arrivals: { why_not: string; ranks: number[]; operations: number[]; late: number[][];
    delayed_by: number[][];  // places in `ranks` of those that made it late themselves
  };
}
// JSON has no NaN and no infinity.
export type Recorded = number | "NaN" | "Inf" | "-Inf";
// n: the number of each value that is drawn; absent: all are, from 1.  least, most: of finite values.
export interface NumberLine {
  ranks: string; count: number; begin: number; end: number; first: Recorded; last: Recorded; least?: number; most?: number; most_at?: number;
  nonfinite: number; nonfinite_at?: number; nonfinite_us?: number; v: Recorded[]; n?: number[];
}
// findings: indices of those that are about it
export interface NumberChart { name: string; kind: "scalar" | "norm" | "nonfinite"; ranks: number; more_ranks: number; nonfinite: number; findings: number[]; lines: NumberLine[] }
export interface Numbers { charts: NumberChart[]; more_charts: number; shortened: string }
export interface Fact { name: string; count: number; values: { value: string; ranks: string }[] }
export interface Data {
  schema: string; version: string; verdict: string; run_line: string; leading: number;
  card: Card | null; findings: Finding[];
  losses: { stat: string; rank: number; count: number; severity: string; advice: string; text: string }[];
  run: { id: string; ranks: number[]; missing_ranks: number[]; world_size: number; hosts: string[]; start_ns: number; end_ns: number; records: number; live: boolean };
  texts: string[]; ranks: Ranks | null; communicators: Communicator[]; lanes: Lanes | null; waits: Waits | null; stacks: Stacks | null;
  memory: Memory[]; steps: Steps | null; numbers: Numbers | null; environment: Fact[];
}
// What `report` and `diff` show (analyzer/page/page.h, struct Sheet).
export type ReportValue = number | string | string[] | Record<string, number> | null;
export interface Report { by: string; columns: string[]; usual: string[]; bars: string[]; left_out: number; rows: ReportValue[][] }
interface Side { collectives: number; operation?: string; count?: number; type?: string; reduction?: string; where?: string }
interface OfMemory { rank: number; device: number; peak_bytes: number; bytes?: number; where?: string; surplus_bytes?: number }
export interface Diff {
  verdict: string; only_in_a: string[]; only_in_b: string[];
  sequences: { kind: "same" | "differs" | "ends" | "unknown"; communicator: string; ranks: number[]; sequence?: number; sequence_last?: number; a: Side; b: Side }[];
  values?: { differences: { kind: string; ranks: number[]; where: string; number: number; a?: unknown; b?: unknown; operation?: string }[]; same_count: number; incomplete_count: number };
  time?: {
    per: string; ranks: number[]; window: { a_ns: number; b_ns: number }; buckets: { bucket: string; idle: boolean; a_ns: number; b_ns: number; grew: boolean }[];
    kernels: { category: string; a_ns: number; b_ns: number; a_percent: number; b_percent: number }[];
    synchronisations: { change: string; call: string; site: string; a_count: number; b_count: number; a_blocked_ns: number; b_blocked_ns: number }[];
    new_kernels: { name: string; ns: number }[]; vanished_kernels: { name: string; ns: number }[];
  };
  memory?: { a: OfMemory; b: OfMemory; [more: string]: unknown }[];
}
export interface Sheet { kind: "report" | "diff"; title: string; inputs: [string, string][]; next: Card["next"]; report?: Report; diff?: Diff }
export const data: Data & Partial<Sheet> = JSON.parse(document.getElementById("data")!.textContent!);
export const text = (index: number): string => data.texts[index] ?? "";

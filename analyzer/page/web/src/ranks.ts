import { Communicator, data, text } from "./data";
import { css, h, hideTip, showTip } from "./dom";
import { choose, option, pinned, whenChosen } from "./state";
import { table } from "./table";
import { bytes, duration, moment, rankList } from "./units";

const states: Record<string, [string, string]> = {  // colour, sign: never colour alone
  culprit: ["--culprit", "!"], waiting: ["--waiting", "\u2026"], moving: ["--moving", "\u203a"], "was moving": ["--moving", "\u203a"], done: ["--done", "\u2713"],
  failed: ["--failed", "\u00d7"], dead: ["--dead", "\u2020"], silent: ["--dead", "\u25cb"], "no trace": ["--none", "?"],
};
interface Cell { rank: number; host: string; gpu: number; pid: number; state: string; last: string; place: string; at: number; ended: number | null; exited: number | null; peak: number | null; late: number | null; step: number | null }

export function cells(): Cell[] {
  const r = data.ranks;
  if (!r) return [];
  const known = r.rank.map((rank, i) => ({ rank, host: text(r.host[i]!), gpu: r.gpu[i]!, pid: r.pid[i]!, state: text(r.state[i]!) === "moving" && !data.run.live ? "was moving" : text(r.state[i]!), last: text(r.last[i]!),
    place: text(r.place[i]!), at: r.at[i]!, ended: r.ended[i]!, exited: r.exited[i]!, peak: r.peak[i]!, late: r.late[i]!, step: r.step[i]! }));
  const missing = r.missing.map((rank) => ({ rank, host: "", gpu: -1, pid: 0, state: "no trace", last: "", place: "", at: 0, ended: null, exited: null, peak: null, late: null, step: null }));
  return [...known, ...missing].sort((a, b) => a.rank - b.rank);
}
// A culprit that died is both.
const signOf = (cell: Cell): string => `${states[cell.state]?.[1] ?? "?"}${died(cell) && cell.state === "culprit" ? "\u2020" : ""}`;
const died = (cell: Cell): boolean => cell.ended !== null;
const stateOf = (cell: Cell): string => `${cell.state}${died(cell) && !["dead", "failed"].includes(cell.state) ? ", gone" : cell.exited !== null && cell.state !== "done" ? ", exited" : ""}`;
export const about = (cell: Cell): string[] => [`rank ${cell.rank}: ${stateOf(cell)}`,
  [cell.host ? `host ${cell.host}` : "", cell.pid > 0 ? `pid ${cell.pid}` : "", cell.gpu >= 0 ? `GPU ${cell.gpu}` : ""].filter((part) => part !== "").join(", "),
  cell.last ? `${cell.last} at ${moment(cell.at)}` : "", cell.place, cell.ended !== null ? `\u2020 gone at ${moment(cell.ended)}` : "", cell.exited !== null ? `exited with status 0 at ${moment(cell.exited)}` : "", cell.peak !== null ? `peak memory ${bytes(cell.peak)}` : "",
  cell.late !== null ? `delayed collectives by ${duration(cell.late)}` : "", cell.step !== null ? `step ${duration(cell.step)}` : "", "Enter or click pins it for all screens"];

const figures: Record<string, [string, (cell: Cell) => number | null]> = {
  state: ["state", () => null], peak: ["peak memory", (cell) => cell.peak], late: ["arrival lateness", (cell) => cell.late], step: ["step time", (cell) => cell.step],
};

// The number of the collective that a rank waits in, as the lanes have it; 0: in something that has no number.
function waitOf(rank: number, communicator: string): number | undefined {
  const bars = data.lanes?.lanes.find((lane) => lane.rank === rank)?.bars.filter((bar) => bar[5] === "waits" && text(bar[2]) === communicator) ?? [];
  const bar = bars.find((one) => one[6]) ?? bars[0];
  if (bar) return /^nccl(Send|Recv)/.test(text(bar[4])) ? 0 : bar[3];
  const edge = data.waits?.edges.find((one) => one.communicator === communicator && data.waits!.nodes[one.from]?.ranks.includes(rank));
  return edge && (edge.message ? 0 : edge.sequence);
}

// Groups of one name that share no rank, as those of tensor parallelism, are one column.
function columnsOf(communicators: Communicator[]): Communicator[][] {
  const columns: Communicator[][] = [];
  for (const one of communicators) {
    const column = columns.find((same) => same[0]!.name === one.name && !same.some((other) => other.ranks.some((rank) => one.ranks.includes(rank))));
    if (column) column.push(one); else columns.push([one]);
  }
  return columns;
}

function matrix(all: Cell[], communicators: Communicator[]): HTMLElement {
  const shown = columnsOf(communicators.filter((c) => c.seq.some((last) => last > 0))).slice(0, 24);
  const leading = data.findings[data.leading], ofCollective = leading?.sequence !== undefined && !["ncclSend", "ncclRecv"].includes(leading.operation ?? "");
  return h("div", { class: "scroll" }, h("table", { class: "matrix" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "rank"), ...shown.map((same) => h("th", { scope: "col" }, same[0]!.name.replaceAll("_", "_\u200b"), same.some((c) => c.leading) ? " \u2190" : "")), h("th", { scope: "col" }, "state"))),
    h("tbody", {}, ...all.map((cell) => h("tr", { class: cell.state },
      h("th", { scope: "row" }, String(cell.rank)),
      ...shown.map((same) => {
        const c = same.find((one) => one.ranks.includes(cell.rank));
        if (!c) return h("td", { class: "quiet" }, "\u2013");
        const member = c.ranks.indexOf(cell.rank);
        const own = c.seq[member]!, others = Math.max(0, ...c.seq.filter((_, i) => i !== member));
        const behind = own < others, blamed = ofCollective && c.leading && cell.state === "culprit";
        // Who waits is not to blame for being behind.
        const wait = waitOf(cell.rank, c.name), stuck = wait !== undefined;
        const inside = wait && wait > 0 && wait < own ? `waits in #${wait}, called up to ` : "";
        const waitsElsewhere = (data.waits?.edges ?? []).some((edge) => edge.communicator !== c.name && data.waits!.nodes[edge.from]?.ranks.includes(cell.rank));
        const name = blamed ? "culprit" : stuck || cell.state === "waiting" && (c.leading || behind && !waitsElsewhere) ? "waiting" : behind ? "less" : "same";
        return h("td", { class: name }, `${inside}${own > 0 ? `#${own}` : "none yet"}${own < others && (name === "culprit" || name === "less") ? ` (others #${others})` : ""}`);
      }), h("td", {}, `${signOf(cell)} ${stateOf(cell)}`))))));
}

// Of a verdict on numbers, which blames no rank: those that it names, unless these are all.
function namedRanks(all: Cell[]): number[] {
  const one = data.findings[data.leading];
  if (!one?.code.startsWith("numeric.") || one.severity === "info") return [];
  const named = [...new Set(one.where.map((at) => at.rank))].filter((rank) => all.some((cell) => cell.rank === rank));
  return named.length < all.length ? named : [];
}

// One cell for each GPU, a block for each host.
function grid(all: Cell[]): HTMLElement {
  const hosts = [...new Set(all.map((cell) => cell.host))];
  const groups = hosts.length > 1 ? hosts.map((host) => all.filter((cell) => cell.host === host))
    : Array.from({ length: Math.ceil(all.length / 8) }, (_, i) => all.slice(i * 8, i * 8 + 8));
  const most = Math.max(1, ...groups.map((group) => group.length));
  const across = most <= 4 ? most : most <= 16 ? 4 : 8;
  const size = all.length > 512 ? 13 : all.length > 128 ? 18 : all.length > 32 ? 26 : 46;
  const [width, height] = [across * size + 8, Math.ceil(most / across) * size + 8];
  const named = new Set(namedRanks(all));
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": `${all.length} ranks by host; arrows move, Enter pins; the table below has the same` });
  const wrap = h("div", { class: "picture" }, canvas);
  let places: { cell: Cell; x: number; y: number }[] = [];
  let current = -1;
  function draw(): void {
    const room = Math.max(300, (wrap.parentElement?.clientWidth ?? 900) - 4);
    const most = Math.max(1, Math.floor(room / width));
    const columns = groups.length > most ? 2 ** Math.floor(Math.log2(most)) : most;  // 16 hosts in a row are counted more easily than 18
    const scale = devicePixelRatio || 1;
    const tall = Math.ceil(groups.length / columns) * height + 8;
    canvas.width = room * scale; canvas.height = tall * scale;
    canvas.style.width = `${room}px`; canvas.style.height = `${tall}px`;
    const context = canvas.getContext("2d")!;
    context.scale(scale, scale);
    const [, figure] = figures[option("colour") ?? "state"] ?? figures.state!;
    const values = all.map(figure).filter((value): value is number => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    places = [];
    if (hosts.length > columns && room - columns * width > 80) {
      context.fillStyle = css("--quiet"); context.font = "12px system-ui, 'DejaVu Sans', sans-serif"; context.textBaseline = "middle";
      for (let g = 0; g < hosts.length; g += columns) context.fillText(`${hosts[g]} \u2026`, columns * width + 4, Math.floor(g / columns) * height + height / 2, room - columns * width - 8);
    }
    groups.forEach((group, g) => group.forEach((cell, i) => {
      const x = (g % columns) * width + (i % across) * size + 4, y = Math.floor(g / columns) * height + Math.floor(i / across) * size + 4;
      const [colour] = states[cell.state] ?? ["--none", "?"], sign = signOf(cell);
      const value = figure(cell);
      context.fillStyle = css(cell.state === "culprit" ? "--culprit-fill" : colour);
      context.globalAlpha = value === null ? (values.length > 0 ? 0.12 : cell.state === "waiting" ? 0.7 : 1) : 1;
      if (value !== null) context.fillStyle = `hsl(${210 - 180 * (high > low ? (value - low) / (high - low) : 0)} 75% ${72 - 26 * (high > low ? (value - low) / (high - low) : 0)}%)`;
      context.fillRect(x, y, size - 2, size - 2);
      context.globalAlpha = 1;
      if (size > 11 && (cell.state !== "waiting" || size > 16)) {
        context.fillStyle = cell.state === "waiting" ? css("--fg") : cell.state === "culprit" ? "#fff" : cell.state === "no trace" ? "#111" : css("--ink");
        context.font = `bold ${Math.round(size * 0.62)}px sans-serif`;
        context.textAlign = "center"; context.textBaseline = "middle";
        if (size > 40) {  // room for who it is
          context.font = `bold ${Math.round(size * (cell.rank > 9 ? 0.28 : 0.34))}px sans-serif`;
          if (value !== null) context.fillStyle = "#111";
          context.fillText(`${value === null ? `${sign} ` : ""}${cell.rank}`, x + size / 2 - 1, y + size / 2);
        } else if (value === null) context.fillText(sign, x + size / 2 - 1, y + size / 2);
      }
      if (named.has(cell.rank)) {
        context.strokeStyle = css("--culprit"); context.lineWidth = 3;
        context.strokeRect(x, y, size - 2, size - 2);
      }
      if (cell.rank === pinned() || places.length === current) {
        context.strokeStyle = css("--fg"); context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, size, size);
      }
      places.push({ cell, x, y });
    }));
  }
  const find = (event: MouseEvent): number => places.findIndex((p) => event.offsetX >= p.x && event.offsetX < p.x + size && event.offsetY >= p.y && event.offsetY < p.y + size);
  canvas.addEventListener("mousemove", (event) => { const i = find(event); if (i >= 0) showTip(about(places[i]!.cell), event.clientX, event.clientY); else hideTip(); });
  canvas.addEventListener("mouseleave", hideTip);
  const pin = (rank: number): void => choose("rank", pinned() === rank ? null : String(rank));
  canvas.addEventListener("click", (event) => { const i = find(event); if (i >= 0) pin(places[i]!.cell.rank); });
  canvas.addEventListener("keydown", (event) => {
    const move: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
    if (event.key in move) {
      current = Math.max(0, Math.min(places.length - 1, current < 0 ? 0 : current + move[event.key]!));
      event.preventDefault();
      draw();
      const box = canvas.getBoundingClientRect(), p = places[current]!;
      showTip(about(p.cell), box.left + p.x, box.top + p.y);
    } else if (event.key === "Enter" && current >= 0) pin(places[current]!.cell.rank);
  });
  canvas.addEventListener("blur", () => { current = -1; hideTip(); draw(); });
  requestAnimationFrame(draw);
  addEventListener("resize", draw);
  whenChosen(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return wrap;
}

export function ranks(): HTMLElement[] | null {
  const all = cells();
  if (all.length === 0) return null;
  const counts = new Map<string, number>();
  for (const cell of all) counts.set(cell.state, (counts.get(cell.state) ?? 0) + 1);
  const has = Object.entries(figures).filter(([name, [, of]]) => name === "state" || all.some((cell) => of(cell) !== null));
  const select = h("select", { "aria-label": "colour of the cells", change: (event: Event) => choose("colour", (event.target as HTMLSelectElement).value) },
    ...has.map(([name, [label]]) => h("option", { value: name, selected: (option("colour") ?? "state") === name }, label)));
  const legend = h("div", { class: "legend" }, ...[...counts].map(([state, count]) => {
    const sign = h("i", { class: state.replace(" ", "-") }, states[state]?.[1] ?? "?");
    sign.style.background = `var(${state === "culprit" ? "--culprit-fill" : states[state]?.[0] ?? "--none"})`;
    const named = ["culprit", "dead", "failed", "silent", "no trace"].includes(state) ? all.filter((cell) => cell.state === state) : [], few = named.slice(0, 2);
    const hosts = [...new Set(named.map((cell) => cell.host))].filter((host) => host !== ""), list = rankList(named.map((cell) => cell.rank));
    const who = named.length > few.length ? `ranks ${list.length > 40 ? `${list.slice(0, 40)}\u2026` : list}${hosts.length === 1 ? ` on ${hosts[0]}` : hosts.length > 1 ? ` on ${hosts.length} hosts` : ""}` : few.map((cell) => `rank ${cell.rank}${cell.host ? ` on ${cell.host}` : ""}${cell.gpu >= 0 ? `, GPU ${cell.gpu}` : ""}${cell.state !== "culprit" ? "" : died(cell) ? ", gone \u2020" : cell.exited !== null ? ", exited with status 0" : ""}`).join("; ");
    return h("span", {}, sign, `${state}: ${count.toLocaleString("en-US")}${who ? ` (${who})` : ""}`);
  }));
  // Those that are unlike the others come first, so that no long table hides them.
  const alike = ["waiting", "moving", "was moving", "done"];
  const order = [...all].sort((a, b) => Number(alike.includes(a.state)) - Number(alike.includes(b.state)) || a.rank - b.rank);
  const rows = order.map((cell) => [cell.rank, cell.host, cell.gpu < 0 ? null : cell.gpu, cell.pid === 0 ? null : cell.pid, stateOf(cell), cell.last, cell.place, { us: cell.at }, cell.ended === null ? null : { us: cell.ended },
    cell.peak === null ? null : { text: bytes(cell.peak), sort: cell.peak }, cell.late === null ? null : { ns: cell.late }]);
  const scale = h("p", { class: "quiet scale" });
  const tell = (): void => {
    const [name, of] = figures[option("colour") ?? "state"] ?? figures.state!;
    const known = all.filter((cell) => of(cell) !== null).sort((a, b) => of(a)! - of(b)!);
    const show = (cell: Cell): string => `${option("colour") === "peak" ? bytes(of(cell)!) : duration(of(cell)!)} (rank ${cell.rank})`;
    scale.textContent = known.length === 0 ? "" : `${name}: from blue, ${show(known[0]!)}, to red, ${show(known.at(-1)!)}`;
  };
  tell();
  whenChosen(tell);
  const named = namedRanks(all);
  if (named.length > 0) {
    const sign = h("i");
    sign.style.border = "3px solid var(--culprit)";
    legend.append(h("span", {}, sign, `rank${named.length === 1 ? "" : "s"} ${rankList(named)}: of the headline`));
  }
  const small = all.length <= 32, counted = data.communicators.some((c) => c.seq.some((last) => last > 0));
  const behind = data.communicators.filter((c) => new Set(c.seq).size > 1);
  return [legend, has.length > 1 ? h("div", { class: "tools" }, "colour: ", select) : h("span"), scale, grid(all),
    small && counted ? h("h3", {}, "How far every rank got: number of the last collective that it called, by communicator (sends and receives are counted by themselves)") : h("span"),
    small && counted ? matrix(all, data.communicators) : h("span"),
    table("Ranks", ["rank", "host", "GPU", "pid", "state", "last call", "at", "time", "gone at", "peak memory", "lateness"], rows),
    ...(data.communicators.length === 0 ? [] : [table("Communicators", ["communicator", "size", "ranks with a trace", "least", "most", "behind"], data.communicators.map((c) => [c.name, c.size, c.ranks.length,
      Math.min(...c.seq), Math.max(...c.seq), behind.includes(c) ? c.ranks.filter((_, i) => c.seq[i]! < Math.max(...c.seq)).slice(0, 20).join(", ") : ""]))])];
}

import { Bar, data, text } from "./data";
import { css, h, hideTip, showTip } from "./dom";
import { choose, option, pinned, whenChosen } from "./state";
import { table } from "./table";
import { at, duration, moment, rankList } from "./units";

const hues = ["#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#7a6fd0", "#5f7d2a", "#b0672d", "#4a6572"];

// Dark letters on light colours.
function inkOn(colour: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.22 ? "#111" : "#fff";
}

// The time of the picture: from before the ranks parted, and what follows squeezed so that the wait does not hide how it began.
interface View { from: number; to: number }

// enqueued: handed to the GPU; when it was over there was not recorded.
const over = (bar: Bar): boolean => bar[5] === "done" || bar[5] === "enqueued";
const lasted = (bar: Bar): string => bar[5] === "enqueued" ? "enqueued; its end on the GPU was not recorded" : `for ${duration((bar[1] - bar[0]) * 1e3)}`;

// Of who is gone, and of who ended in good order while others wait for it.
const kinds = ["died", "exited", "silent"] as const;
const signs = { died: ["\u2020", "--dead", "gone", "the process is gone"], exited: ["\u2713", "--done", "exited with status 0", "the process exited with status 0"],
  silent: ["\u25cb", "--dead", "silent", "nothing was heard of the process any more"] } as const;
function signOf(kind: keyof typeof signs): HTMLElement {
  const sign = h("i", {}, signs[kind][0]);
  sign.style.background = `var(${signs[kind][1]})`;
  return sign;
}
// From the longest to the shortest.
function labelsOf(bar: Bar): string[] {
  const number = bar[3] > 0 ? `#${bar[3]}` : "";
  if (over(bar)) return [number];
  const call = text(bar[4]), time = duration((bar[1] - bar[0]) * 1e3), names = [text(bar[2]), number].filter((part) => part !== "").join(" ");
  if (bar[5] === "waits") return [`waits in ${call}${names ? ` ${names}` : ""}, ${time}`, `waits in ${call} ${number}`.trimEnd(), `waits in ${number || call}`, `waits ${time}`, number || time];
  const [what, place] = call.split(" at ");
  return [call, `${what} at ${place?.split(" in ")[0]}`, what!, what!.startsWith("after ") ? "" : what!.split(" ")[0]!, place?.split(" in ")[0] ?? ""].filter((label) => label !== "");
}

// Where what is kept from before is far older than all the rest, the picture begins after it.
function withoutGap(before: number, starts: number[], parted: number | null, latest: number): number {
  const lively = parted === null ? 0 : latest - parted;
  if (parted === null || lively <= 0 || parted - before < 10 * lively) return before;
  const edges = [...starts, parted].sort((a, b) => a - b);
  const gaps = edges.slice(1).map((edge, i): [number, number] => [edge - edges[i]!, edge]);
  const [widest, behind] = gaps.reduce((most, gap) => gap[0] > most[0] ? gap : most, [0, before]);
  return widest > 0.8 * (parted - before) ? behind - 0.1 * lively : before;
}

// What the frames mean, and why the numbers of a culprit may not be those of the others.
function aboutHeadline(framed: boolean): string {
  const one = data.findings[data.leading];
  if (!one || one.severity === "info") return "";
  const number = one.sequence ?? 0, last = one.sequence_last ?? number, [first, second] = [number, number + 1].map((n) => `#${n}`);
  const message = one.code.startsWith("p2p.") || ["ncclSend", "ncclRecv"].includes(one.operation ?? ""), of = ` of ${one.communicator?.name ?? ""}`;
  const call = (one.communicators?.length ?? 0) > 1 ? "the calls that wait for one another" : message ? "the messages" : number === 0 ? "the calls" : last > number ? `#${number} to #${last}${of}` : `${first}${of}`;
  if (!framed) return number > 0 && one.communicator ? `Not in this picture: ${message ? `message ${first}${of}` : call}, which the headline is about. A trace keeps the newest operations of each communicator.` : "";
  const culprit = `rank${one.culprits.length === 1 ? "" : "s"} ${rankList(one.culprits)}`;
  const own: Record<string, string> = {
    "collective.skipped-call": ` Each rank counts its own calls: from there on what ${culprit} counts as ${first} the others count as ${second}.`,
    "collective.extra-call": ` Each rank counts its own calls: after it what ${culprit} counts as ${second} the others count as ${first}.`,
    "collective.order-swapped": ` Each rank counts its own calls: what the others count as ${second} is ${first} of ${culprit}.`,
  };
  return `Framed: ${call}, which the headline is about.${one.culprits.length > 0 && last === number ? own[one.code] ?? "" : ""}`;
}

export function lanes(): HTMLElement[] | null {
  const all = data.lanes;
  if (!all || all.lanes.every((lane) => lane.bars.length === 0)) return null;
  const names = [...new Set(all.lanes.flatMap((lane) => lane.bars.map((bar) => text(bar[2]))))].filter((name) => name !== "");
  const hue = (bar: Bar): string => hues[Math.max(0, names.indexOf(text(bar[2]))) % hues.length]!;
  const first = Math.min(...all.lanes.flatMap((lane) => lane.bars.map((bar) => bar[0])));
  const last = Math.max(all.lanes.some((lane) => lane.bars.some((bar) => !over(bar))) ? all.end : -Infinity, ...all.lanes.flatMap((lane) => [...lane.bars.map((bar) => bar[1]), lane.died ?? -Infinity, lane.exited ?? -Infinity, lane.silent ?? -Infinity]));
  const parted = all.parted;
  // From twenty collectives before to the end of all: the wait gets a third of the width, behind a cut.
  const starts = all.lanes.flatMap((lane) => lane.bars.filter((bar) => parted === null || bar[0] <= parted).slice(-20).map((bar) => bar[0]));
  const headline = all.lanes.flatMap((lane) => lane.bars.filter((bar) => bar[6]).map((bar) => bar[0]));
  const before = withoutGap(Math.min(starts.length > 0 ? Math.min(...starts) : first, ...headline), [...starts, ...headline], parted, Math.max(...all.lanes.flatMap((lane) => lane.bars.map((bar) => bar[0]))));
  const lively = parted === null ? last : Math.max(parted, ...all.lanes.flatMap((lane) => lane.bars.map((bar) => bar[0]))) + Math.max(1, (parted - before) * 0.15);
  const cut = parted !== null && last - lively > 2 * (lively - before) ? lively : null;
  let view: View = { from: before, to: last };
  const asked = option("time")?.split("-").map(Number);
  if (asked && asked.length === 2 && asked.every((value) => Number.isFinite(value)) && asked[0]! < asked[1]!) view = { from: asked[0]!, to: asked[1]! };
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "lanes of operations by rank; + and - zoom, arrows move, 0 shows all; the table below has the same" });
  const wrap = h("div", { class: "picture" }, canvas);
  const left = 26 + 8 * `rank ${Math.max(...all.lanes.map((lane) => lane.rank))} !`.length;
  const [row, top] = [34, 22];
  let width = 900;
  const broken = (): boolean => cut !== null && view.to > cut && view.from < cut;
  function x(time: number): number {
    const room = width - left - 8;
    if (!broken()) return left + room * (time - view.from) / (view.to - view.from);
    return time <= cut! ? left + room * 0.66 * (time - view.from) / (cut! - view.from) : left + room * (0.68 + 0.32 * (time - cut!) / (view.to - cut!));
  }
  function timeAt(px: number): number {
    const room = width - left - 8, part = (px - left) / room;
    if (!broken()) return view.from + part * (view.to - view.from);
    return part <= 0.67 ? view.from + part / 0.66 * (cut! - view.from) : cut! + (part - 0.68) / 0.32 * (view.to - cut!);
  }
  let pattern: CanvasPattern | null = null;
  function hatch(context: CanvasRenderingContext2D): CanvasPattern {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const own = tile.getContext("2d")!;
    own.fillStyle = css("--waiting"); own.globalAlpha = 0.35; own.fillRect(0, 0, 8, 8);
    own.globalAlpha = 0.9; own.strokeStyle = css("--waiting"); own.lineWidth = 2;
    own.beginPath(); own.moveTo(-2, 10); own.lineTo(10, -2); own.moveTo(-2, 2); own.lineTo(2, -2); own.moveTo(6, 10); own.lineTo(10, 6); own.stroke();
    return context.createPattern(tile, "repeat")!;
  }
  let frames = 0, spent = 0;
  function draw(): void {
    const began = performance.now();
    width = Math.max(300, (wrap.parentElement?.clientWidth ?? 900) - 4);
    const tall = top + all!.lanes.length * row + 26, scale = devicePixelRatio || 1;
    canvas.width = width * scale; canvas.height = tall * scale;
    canvas.style.width = `${width}px`; canvas.style.height = `${tall}px`;
    const context = canvas.getContext("2d")!;
    context.scale(scale, scale);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif"; context.textBaseline = "middle";
    pattern = hatch(context);
    const words: string[] = [];
    let frameCount = 0;
    const labels: (() => void)[] = [];  // over all bars, and over the cut
    all!.lanes.forEach((lane, i) => {
      const y = top + i * row;
      context.fillStyle = lane.role === "culprit" ? css("--culprit") : css("--fg");
      context.font = `${lane.role === "culprit" || lane.rank === pinned() ? "bold " : ""}12px system-ui, 'DejaVu Sans', sans-serif`;
      context.fillText(`rank ${lane.rank}${lane.role === "culprit" ? " !" : ""}`, 6, y + row / 2);
      context.fillStyle = css("--line"); context.fillRect(left, y + row - 3, width - left - 8, 1);
      context.save();
      context.beginPath(); context.rect(left, 0, width - left, tall); context.clip();
      context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      let labelled = -Infinity, waiting = -Infinity;
      const line = parted === null ? Infinity : x(parted);
      const framed = lane.bars.find((bar) => bar[6] && over(bar)), keep = framed && framed[0] >= view.from && framed[0] <= view.to ? x(framed[0]) : Infinity;
      // Of waits that lie on each other one is seen: what the headline is about, else the first.
      const hidden = new Set(lane.bars.filter((bar) => bar[5] === "waits" && lane.bars.some((other) => other !== bar && other[5] === "waits" && other[0] <= bar[0] && other[1] >= bar[1] && (other[6] ? !bar[6] : !bar[6] && (other[0] < bar[0] || lane.bars.indexOf(other) < lane.bars.indexOf(bar))))));
      for (const bar of lane.bars) {
        if (bar[1] < view.from || bar[0] > view.to || hidden.has(bar)) continue;
        const [begin, end] = [x(Math.max(bar[0], view.from)), x(Math.min(bar[1], view.to))];
        const wide = Math.max(2, end - begin);
        if (bar[5] === "waits") { context.fillStyle = css("--bg"); context.fillRect(begin, y + 7, wide, row - 14); }  // over another one
        context.fillStyle = bar[5] === "waits" ? pattern! : bar[5] === "instead" ? css("--culprit-fill") : hue(bar);
        context.fillRect(begin, y + 7, wide, row - 14);
        if (!over(bar)) {
          context.strokeStyle = bar[5] === "waits" && lane.role !== "culprit" ? css("--waiting") : css("--culprit"); context.lineWidth = lane.role === "culprit" ? 2 : 1;
          context.strokeRect(begin + 0.5, y + 7.5, wide - 1, row - 15);
        }
        if (bar[6]) labels.push(() => { ++frameCount; context.strokeStyle = css("--fg"); context.lineWidth = 2; context.strokeRect(begin - 1, y + 4, Math.max(wide, 4) + 2, row - 8); });
        // The longest that fits, not across the cut of the axis if there is room on one side of it.
        const label = labelsOf(bar).find((one) => context.measureText(one).width + 6 < wide) ?? (over(bar) && bar[3] > 0 ? `#${bar[3]}` : "");
        const need = context.measureText(label).width;
        if (need + 6 < wide) {
          const edge = broken() && begin < x(cut!) && end > x(cut!) ? x(cut!) + 10 : begin + 4;
          const place = edge + need + 4 < end && begin + need + 8 > (broken() ? x(cut!) : Infinity) ? edge : begin + 4;
          // Another wait lies there too: one of them is told.
          if (bar[5] === "waits" && (place < waiting || !bar[6] && lane.bars.some((other) => other[6] && other[5] === "waits" && other[0] < bar[1] && other[1] > bar[0]))) continue;
          if (bar[5] === "waits") waiting = place + need + 6;
          words.push(label);
          labels.push(() => {
            if (bar[5] === "instead") { context.fillStyle = css("--culprit-fill"); context.fillRect(place, y + 7, need, row - 14); }  // over the cut
            if (bar[5] === "waits") { context.globalAlpha = 0.8; context.fillStyle = css("--bg"); context.fillRect(place - 3, y + row / 2 - 8, need + 6, 16); context.globalAlpha = 1; }
            context.fillStyle = bar[5] === "waits" ? css("--fg") : bar[5] === "instead" ? "#fff" : inkOn(hue(bar)); context.fillText(label, place, y + row / 2); });
        } else if (label !== "" && over(bar) && (bar === framed || Math.min(begin, width - need - 2) > labelled && (begin > keep || begin + need + 4 < keep) && !(begin < line && begin + need > line - 2))) {
          const told = bar === framed ? `${label} ${text(bar[4])}`.trim() : label, room = context.measureText(told).width;
          const place = Math.min(begin, width - room - 2);
          context.fillStyle = css(bar === framed ? "--fg" : "--quiet"); context.fillText(told, place, y + 2); labelled = place + room + 4;
          if (bar === framed) words.push(told);
        }
      }
      context.restore();
      const kind = kinds.find((one) => lane[one] !== undefined) ?? "exited", ended = lane[kind], [mark, colour, gone] = signs[kind];
      if (ended !== undefined && ended >= view.from && ended <= view.to) {
        const end = Math.min(x(ended), width - 16);
        labels.push(() => {
          context.fillStyle = css("--bg"); context.fillRect(end, y + 7, 14, row - 14);  // over what it did until then
          context.fillStyle = css(colour); context.fillRect(end, y + 5, 2, row - 10);
          context.font = "bold 14px system-ui, 'DejaVu Sans', sans-serif"; context.fillText(mark, end + 4, y + row / 2);
          const when = `${gone} ${kind === "silent" ? "since" : "at"} ${at(ended)}`;
          context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
          // Where nothing is drawn behind it.
          if (lane.bars.some((bar) => bar[1] > ended)) return;
          const told = [when, `${gone}`, gone.split(" ")[0]!].find((one) => end + 18 + context.measureText(one).width < width);
          if (told) { context.fillText(told, end + 17, y + row / 2); words.push(told); canvas.dataset.labels = words.join("|"); }
        });
      }
    });
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const foot = top + all!.lanes.length * row + 12;
    context.fillStyle = css("--quiet");
    const time = width < 700 ? at : moment;  // or they would lie on each other
    context.fillText(time(view.from), left, foot);
    const end = time(view.to);
    context.fillText(end, width - context.measureText(end).width - 8, foot);
    if (broken()) { if (width >= 700) context.fillText("// axis cut //", x(cut!) - 6, foot); context.clearRect(x(cut!) + 3, 0, 3, foot - 10); }
    labels.forEach((label) => label());
    canvas.dataset.framed = String(frameCount);
    canvas.dataset.labels = words.join("|");  // as the tests read
    if (parted !== null && parted >= view.from && parted <= view.to) {
      context.strokeStyle = css("--culprit"); context.setLineDash([4, 3]);
      context.beginPath(); context.moveTo(x(parted), 4); context.lineTo(x(parted), foot - 8); context.stroke(); context.setLineDash([]);
      const mark = `ranks part here: ${time(parted)}`, wide = context.measureText(mark).width;
      const place = x(parted) + 4 + wide + 8 < width ? x(parted) + 4 : Math.max(4, x(parted) - 4 - wide);
      context.fillStyle = css("--culprit");
      context.fillText(mark, place, 9);
    }
    ++frames; spent += performance.now() - began;
    canvas.dataset.frame = (spent / frames).toFixed(2);  // ms, as the tests measure
  }
  function move(from: number, to: number): void {
    const span = Math.max(to - from, 1);
    view = { from, to: from + span };
    draw();
  }
  let timer = 0;
  const settle = (): void => { clearTimeout(timer); timer = setTimeout(() => choose("time", view.from === before && view.to === last ? null : `${Math.round(view.from)}-${Math.round(view.to)}`), 300); };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const middle = timeAt(event.offsetX), factor = event.deltaY > 0 ? 1.25 : 0.8;
    move(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
    settle();
  }, { passive: false });
  let drag: { x: number; view: View } | null = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, view: { ...view } }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { if (drag) settle(); drag = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const by = (drag.x - event.offsetX) / (width - left) * (drag.view.to - drag.view.from);
      move(drag.view.from + by, drag.view.to + by);
      return;
    }
    const lane = all.lanes[Math.floor((event.offsetY - top) / row)];
    const bar = lane?.bars.filter((b) => event.offsetX >= x(b[0]) - 2 && event.offsetX <= Math.max(x(b[1]), x(b[0]) + 2) + 2).at(-1);
    const kind = lane && kinds.find((one) => lane[one] !== undefined), ended = kind && lane[kind];
    if (lane && ended !== undefined && Math.abs(event.offsetX - x(ended) - 5) < 8) showTip([`rank ${lane.rank}: ${signs[kind!][3]}`, `${kind === "silent" ? "since" : "at"} ${moment(ended)}`], event.clientX, event.clientY);
    else if (lane && bar) showTip([`rank ${lane.rank}: ${text(bar[4])}`, bar[5] === "instead" ? "while the others wait" : `${text(bar[2])} #${bar[3]}`, `${moment(bar[0])}, ${lasted(bar)}`, bar[5] === "waits" ? "not finished" : ""], event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("keydown", (event) => {
    const span = view.to - view.from, middle = (view.from + view.to) / 2;
    if (event.key === "ArrowRight") move(view.from + span / 8, view.to + span / 8);
    else if (event.key === "ArrowLeft") move(view.from - span / 8, view.to - span / 8);
    else if (event.key === "+") move(middle - span / 4, middle + span / 4);
    else if (event.key === "-") move(middle - span, middle + span);
    else if (event.key === "0") move(before, last);
    else return;
    event.preventDefault();
    settle();
  });
  // Only on a click does anything leave this page: the lanes, to Perfetto's viewer.
  const perfetto = h("button", { click: () => {
    const events = all.lanes.flatMap((lane) => lane.bars.map((bar) => ({ ph: "X", pid: lane.rank, tid: 1, ts: bar[0], dur: bar[1] - bar[0], name: text(bar[4]) + (bar[3] ? ` #${bar[3]}` : ""), cat: text(bar[2]) })));
    const other = window.open("https://ui.perfetto.dev");
    const bytes = new TextEncoder().encode(JSON.stringify({ traceEvents: events })).buffer;
    const ping = setInterval(() => other?.postMessage("PING", "https://ui.perfetto.dev"), 300);
    addEventListener("message", function answer(event) {
      if (event.origin !== "https://ui.perfetto.dev" || event.data !== "PONG") return;
      clearInterval(ping); removeEventListener("message", answer);
      other?.postMessage({ perfetto: { buffer: bytes, title: data.run.id } }, "https://ui.perfetto.dev");
    });
  }, title: "sends these lanes to ui.perfetto.dev, in a new tab" }, "open in Perfetto");
  requestAnimationFrame(draw);
  addEventListener("resize", draw);
  whenChosen(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const legend = h("div", { class: "legend" }, ...names.slice(0, 12).map((name) => { const i = h("i"); i.style.background = hues[names.indexOf(name) % hues.length]!; return h("span", {}, i, name); }),
    ...kinds.filter((kind) => all.lanes.some((lane) => lane[kind] !== undefined)).map((kind) => h("span", {}, signOf(kind), signs[kind][3])));
  // What has not ended first, then from the last to the first.
  const latest = all.lanes.flatMap((lane) => lane.bars.map((bar) => ({ lane, bar }))).sort((a, b) => Number(over(a.bar)) - Number(over(b.bar)) || b.bar[0] - a.bar[0]);
  const about = aboutHeadline(all.lanes.flatMap((lane) => lane.bars).some((bar) => bar[6]));
  return [legend, about ? h("p", { class: "quiet" }, about) : h("span"), h("div", { class: "tools" }, h("button", { click: () => { move(before, last); settle(); } }, "all"), perfetto, h("span", { class: "quiet" }, "wheel: zoom, drag: move")), wrap,
    table("Operations in these lanes", ["rank", "operation", "communicator", "#", "begin", "duration", "state"], latest.map(({ lane, bar }) => [lane.rank, text(bar[4]), text(bar[2]), bar[3] || null,
      { us: bar[0] }, bar[5] === "enqueued" ? null : { ns: (bar[1] - bar[0]) * 1e3 }, bar[5]]))];
}

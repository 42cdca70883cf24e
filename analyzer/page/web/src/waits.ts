import { data } from "./data";
import { h, s, withTip } from "./dom";
import { Node, folded, implied, titleOf } from "./fold";
import { Layout, Place, layout } from "./layout";
import { choose, option, pinned } from "./state";
import { table } from "./table";
import { count } from "./units";

const pad = 12, line = 17, widest = 290;
const pen = document.createElement("canvas").getContext("2d")!;
function measure(text: string, bold = false): number {
  pen.font = `${bold ? "bold 13px" : "12px"} system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
  return pen.measureText(text).width;
}
function cut(text: string, room: number, bold = false): string {
  if (measure(text, bold) <= room) return text;
  let length = text.length;
  while (length > 1 && measure(text.slice(0, length) + "\u2026", bold) > room) --length;
  return text.slice(0, length) + "\u2026";
}

interface Row { text: string; quiet: boolean; port?: number }
interface Drawn { node: Node; rows: Row[]; width: number; height: number; targets: number[] }

// "called ncclReduceScatter at train.py:15": what the verdict is about, where that is another call than its last one.
function callOf(ranks: number[]): string {
  const actor = data.card?.actors.find((one) => one.culprit && ranks.some((rank) => one.ranks.includes(rank)));
  const frame = actor?.frames[0];
  return frame && actor.framesAre?.startsWith("called ") ? `${actor.framesAre} ${frame.file.split("/").at(-1)}:${frame.line}` : "";
}

function drawn(node: Node, hidden: (to: number) => boolean): Drawn {
  const rows: Row[] = [];
  if (node.culprit || node.ports.length === 0) rows.push({ text: node.culprit ? `culprit${node.note ? `: ${node.note}` : ""}` : node.note, quiet: !node.culprit });
  if (node.place && node.ports.length === 0) rows.push({ text: node.place, quiet: true });
  const divergent = node.culprit ? callOf(node.ranks) : "";
  if (divergent) rows.push({ text: divergent, quiet: true });
  if (node.shortened) rows.push({ text: node.note, quiet: true });
  node.ports.slice(0, 4).forEach((port, i) => {
    rows.push({ text: `waits in ${port.text}`, quiet: false, port: i });
    if (port.place) rows.push({ text: port.place, quiet: true });
  });
  if (node.ports.length > 4) rows.push({ text: `and in ${node.ports.length - 4} more`, quiet: true });
  const kept = rows.filter((row) => row.text !== "");
  const width = Math.min(widest, Math.max(120, measure(node.title, true) + 8, ...kept.map((row) => measure(row.text))) + 2 * pad);
  return { node, rows: kept, width: Math.ceil(width), height: 14 + line * (1 + kept.length), targets: [...new Set(node.ports.flatMap((port) => port.to))].filter((to) => !hidden(to)) };
}

const round = (value: number): number => Math.round(value * 10) / 10;
function curve(points: Place[]): string {
  let path = `M${round(points[0]!.x)} ${round(points[0]!.y)}`;
  for (let i = 1; i < points.length; ++i) {
    const [a, b] = [points[i - 1]!, points[i]!], middle = (a.x + b.x) / 2;
    path += `C${round(middle)} ${round(a.y)} ${round(middle)} ${round(b.y)} ${round(b.x)} ${round(b.y)}`;
  }
  return path;
}

// Where the line from the middle of a box leaves it.
function border(place: Place, box: Drawn, towards: Place, gap: number): Place {
  const c = { x: place.x + box.width / 2, y: place.y + box.height / 2 };
  const [dx, dy] = [towards.x - c.x, towards.y - c.y];
  const part = Math.min(Math.abs(dx) > 0 ? (box.width / 2 + gap) / Math.abs(dx) : Infinity, Math.abs(dy) > 0 ? (box.height / 2 + gap) / Math.abs(dy) : Infinity);
  return { x: c.x + dx * part, y: c.y + dy * part };
}

function edges(boxes: Drawn[], where: Layout): SVGElement[] {
  const coming = boxes.map(() => [] as number[]);  // from whom, by height: arrows spread over the edge of the box
  boxes.forEach((box, i) => box.targets.forEach((to) => { if (!box.node.back.includes(to)) coming[to]!.push(i); }));
  coming.forEach((list) => list.sort((a, b) => where.places[a]!.y - where.places[b]!.y));
  return boxes.flatMap((box, i) => box.targets.map((to): SVGElement => {
    const [a, b] = [where.places[i]!, where.places[to]!], other = boxes[to]!;
    const port = box.node.ports.findIndex((one) => one.to.includes(to));
    const thin = box.node.ports[port]?.message;
    const inside = box.node.cycle >= 0 && box.node.cycle === other.node.cycle;
    let path: string;
    if (i === to) path = `M${a.x + box.width} ${a.y + 16}c34 -26 34 36 3 ${Math.min(26, box.height - 24)}`;
    else if (inside) {
      const back = other.targets.includes(i);
      const [ca, cb] = [{ x: a.x + box.width / 2, y: a.y + box.height / 2 }, { x: b.x + other.width / 2, y: b.y + other.height / 2 }];
      const length = Math.hypot(cb.x - ca.x, cb.y - ca.y) || 1, bend = back ? 26 : 0;
      const side = { x: -(cb.y - ca.y) / length * bend, y: (cb.x - ca.x) / length * bend };
      const middle = { x: (ca.x + cb.x) / 2 + side.x * 1.6, y: (ca.y + cb.y) / 2 + side.y * 1.6 };
      const begin = border(a, box, middle, 2), end = border(b, other, middle, 5);
      path = back ? `M${round(begin.x)} ${round(begin.y)}Q${round(middle.x)} ${round(middle.y)} ${round(end.x)} ${round(end.y)}` : `M${round(begin.x)} ${round(begin.y)}L${round(end.x)} ${round(end.y)}`;
    } else if (box.node.back.includes(to)) {
      path = curve([{ x: a.x + box.width + 2, y: a.y + box.height - 7 }, ...(where.routes.get(`${i} ${to}`) ?? []), { x: b.x - 4, y: b.y + other.height - 9 }]);
    } else {
      const from = box.rows.findIndex((row) => row.port === port);
      const nth = coming[to]!.indexOf(i), n = coming[to]!.length;
      const spread = Math.min(12, (other.height - 16) / Math.max(1, n));
      path = curve([{ x: a.x, y: a.y + 7 + line * (1 + Math.max(0, from)) + line / 2 }, ...(where.routes.get(`${i} ${to}`) ?? []),
        { x: b.x + other.width + 4, y: b.y + other.height / 2 + (nth - (n - 1) / 2) * spread }]);
    }
    return s("path", { d: path, class: `edge${box.node.back.includes(to) ? " back" : other.node.culprit ? " to-culprit" : ""}`, fill: "none", "stroke-width": thin ? 1.3 : 2, "data-from": i, "data-to": to, "marker-end": box.node.back.includes(to) ? "url(#arrow-back)" : other.node.culprit ? "url(#arrow-culprit)" : "url(#arrow)" });
  }));
}

function box(one: Drawn, index: number, { x, y }: Place, svg: SVGElement): SVGElement {
  const { node } = one;
  const group = s("g", { class: `box${node.culprit ? " culprit" : node.ports.length > 0 ? " waits" : ""}${node.shortened ? " shortened" : ""}`, tabindex: 0, role: "img", "data-node": index,
    "aria-label": [node.title, ...one.rows.map((row) => row.text)].join("; ") },
    s("rect", { x, y, width: one.width, height: one.height, rx: 5 }), s("rect", { x, y, width: 4, height: one.height, rx: 2, class: "edge-of-box" }),
    s("text", { x: x + pad, y: y + 19, class: "title" }, cut(node.title, one.width - 2 * pad + 2, true)),
    ...one.rows.map((row, i) => s("text", { x: x + pad, y: y + 19 + line * (i + 1), class: row.quiet ? "quiet" : "" }, cut(row.text, one.width - 2 * pad + 4))));
  const light = (on: boolean): void => {
    for (const edge of svg.querySelectorAll(`[data-from="${index}"],[data-to="${index}"]`)) edge.classList.toggle("lit", on);
    svg.classList.toggle("lighting", on);
  };
  for (const [event, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]] as const) group.addEventListener(event, () => light(on));
  group.addEventListener("click", () => choose("rank", pinned() === node.ranks[0] ? null : String(node.ranks[0])));
  return withTip(group, () => [titleOf(node.ranks), node.groups > 1 ? `${node.groups} states that are alike` : "", ...one.rows.map((row) => row.text),
    ...node.ports.slice(4).map((port) => `waits in ${port.text}`)]);
}

// As large as it is wanted, in a frame in which it can be moved.
function picture(nodes: Node[], hidden: Set<string>): HTMLElement {
  const boxes = nodes.map((node, i) => drawn(node, (to) => hidden.has(`${i} ${to}`)));
  const where = layout(boxes.map((one) => ({ width: one.width, height: one.height, targets: one.targets, back: one.node.back, cycle: one.node.cycle })));
  const svg = s("svg", { viewBox: `0 0 ${Math.ceil(where.width)} ${Math.ceil(where.height)}`, role: "group", class: "graph", "aria-label": "who waits for whom; the table below has the same" },
    s("defs", {}, ...["", "-culprit", "-back"].map((kind) => s("marker", { id: `arrow${kind}`, class: `arrow${kind}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, s("path", { d: "M0 0L10 5L0 10z" })))),
    ...where.rings.map((ring) => s("rect", { ...ring, rx: 14, class: "ring" })), ...where.rings.map((ring) => s("text", { x: ring.x + ring.width / 2, y: ring.y + 17, "text-anchor": "middle", class: "quiet" }, "a cycle: each waits for the next")));
  svg.append(...edges(boxes, where), ...boxes.map((one, i) => box(one, i, where.places[i]!, svg)));
  const frame = h("div", { class: "picture graph-frame", tabindex: 0, "aria-label": "graph; + and - zoom, 0 shows all, arrows move" }, svg as unknown as HTMLElement);
  let scale = 1;
  const zoom = (to: number, x = frame.clientWidth / 2, y = frame.clientHeight / 2): void => {
    const before = scale;
    scale = Math.max(0.15, Math.min(2.5, to));
    const [left, top] = [frame.scrollLeft + x, frame.scrollTop + y];
    svg.style.width = `${where.width * scale}px`;
    svg.style.height = `${where.height * scale}px`;
    frame.scrollLeft = left * scale / before - x;
    frame.scrollTop = top * scale / before - y;
  };
  const fit = (): void => zoom(Math.min(1, frame.clientWidth / where.width, Math.max(frame.clientHeight, 600) / where.height));
  // Letters stay readable: what does not fit then is reached by moving, beginning at whom all wait for.
  const begin = (): void => {
    zoom(Math.max(innerWidth < 600 ? 0.65 : 0.85, Math.min(1, frame.clientWidth / where.width)));
    const first = Math.max(0, nodes.findIndex((node) => node.culprit));
    frame.scrollLeft = 0;
    frame.scrollTop = (where.places[first]!.y + boxes[first]!.height / 2) * scale - frame.clientHeight / 2;
  };
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const inside = frame.getBoundingClientRect();
    zoom(scale * (event.deltaY > 0 ? 0.85 : 1.18), event.clientX - inside.left, event.clientY - inside.top);
  }, { passive: false });
  let drag: [number, number] | null = null;
  frame.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse" && event.button === 0) drag = [event.clientX, event.clientY]; });
  addEventListener("pointerup", () => { drag = null; });
  frame.addEventListener("pointermove", (event) => {
    if (!drag) return;
    frame.scrollBy(drag[0] - event.clientX, drag[1] - event.clientY);
    drag = [event.clientX, event.clientY];
  });
  frame.addEventListener("keydown", (event) => {
    if (event.key === "+") zoom(scale * 1.25); else if (event.key === "-") zoom(scale / 1.25); else if (event.key === "0") fit(); else return;
    event.preventDefault();
  });
  requestAnimationFrame(begin);
  const button = (label: string, title: string, click: () => void): HTMLElement => h("button", { title, "aria-label": title, click }, label);
  return h("div", {}, h("div", { class: "tools" }, button("+", "zoom in", () => zoom(scale * 1.25)), button("\u2212", "zoom out", () => zoom(scale / 1.25)), button("all", "show all of it", fit),
    h("span", { class: "quiet" }, "drag: move, Ctrl and wheel: zoom")), frame);
}

export function waits(): HTMLElement[] | null {
  const graph = data.waits;
  if (!graph || graph.edges.length === 0) return null;
  const [every, few] = [folded(graph, false), folded(graph, true)];
  const canFold = few.length < every.length;
  const place = h("div");
  const draw = (): void => {
    const nodes = canFold && option("fold") !== "no" ? few : every;
    const hidden = nodes === few && nodes.length > 12 ? implied(nodes) : new Set<string>();
    const notes = [hidden.size > 0 ? `${count(hidden.size)} lines are not drawn, since they follow from the others: if A waits for B and B for C, then A waits for C.` : "",
      nodes.some((node) => node.back.length > 0) ? "Dashed lines close a cycle: who is on the left waits for who is on the right." : ""];
    place.replaceChildren(picture(nodes, hidden), ...notes.filter((note) => note !== "").map((note) => h("p", { class: "quiet" }, note)));
  };
  const box = h("input", { type: "checkbox", checked: option("fold") === "no", change: (event: Event) => { choose("fold", (event.target as HTMLInputElement).checked ? "no" : null); draw(); } });
  draw();
  const rows = graph.edges.map((edge) => [titleOf(graph.nodes[edge.from]!.ranks), edge.text, edge.place,
    edge.since === null ? null : { us: edge.since }, edge.waited === null ? null : { ns: edge.waited }, titleOf(graph.nodes[edge.to]!.ranks), edge.part]);
  return [h("p", { class: "quiet" }, `On the left who is waited for, to the right who waits for them. Ranks in the same state are one box${canFold ? `: ${few.length} boxes for ${every.length} states` : ""}.`),
    canFold ? h("div", { class: "tools" }, h("label", {}, box, ` every state by itself (${count(every.length)} boxes)`)) : h("span"), place,
    ...(graph.left_out > 0 ? [h("p", { class: "quiet" }, `${count(graph.left_out)} ranks are left out of this picture.`)] : []),
    table("Waits", ["who waits", "in", "at", "since", "for how long", "for whom", "which"], rows)];
}

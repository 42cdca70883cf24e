import { data } from "./data";
import { h, s, withTip } from "./dom";
import { table } from "./table";

// Ranks that wait stand left, those that they wait for right; those in a cycle on a circle.
export function waits(): HTMLElement[] | null {
  const graph = data.waits;
  if (!graph || graph.edges.length === 0) return null;
  const both = graph.nodes.map((_, i) => graph.edges.some((e) => e.from === i) && graph.edges.some((e) => e.to === i));
  const [width, node] = [900, 30];
  const cycle = graph.nodes.map((_, i) => i).filter((i) => both[i]);
  const left = graph.nodes.map((_, i) => i).filter((i) => !both[i] && graph.edges.some((e) => e.from === i));
  const right = graph.nodes.map((_, i) => i).filter((i) => !both[i] && !left.includes(i));
  const height = Math.max(130, 84 * Math.max(left.length, right.length), cycle.length > 2 ? 320 : cycle.length > 1 ? 190 : 0);
  const place = graph.nodes.map((): [number, number] => [0, 0]);
  left.forEach((i, n) => { place[i] = [cycle.length > 0 ? 130 : 190, height * (n + 1) / (left.length + 1)]; });
  right.forEach((i, n) => { place[i] = [cycle.length > 0 ? 780 : 680, height * (n + 1) / (right.length + 1)]; });
  cycle.forEach((i, n) => {
    const angle = Math.PI + 2 * Math.PI * n / cycle.length;
    place[i] = cycle.length === 1 ? [450, height / 2] : [450 + 210 * Math.cos(angle), height / 2 + (height / 2 - 60) * Math.sin(angle)];
  });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "who waits for whom; the table below has the same" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" }, s("path", { d: "M0 0L10 5L0 10z", fill: "currentColor" }))));
  const names = new Map<string, number>();
  graph.edges.forEach((edge) => {
    const [a, b] = [place[edge.from]!, place[edge.to]!];
    const key = [edge.from, edge.to].join("-"), nth = names.get(key) ?? 0;
    names.set(key, nth + 1);
    if (nth > 2) return;
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
    const [ux, uy] = [(b[0] - a[0]) / length, (b[1] - a[1]) / length];
    const back = graph.edges.some((e) => e.from === edge.to && e.to === edge.from);
    const bend = back ? 44 : 0;
    const begin = [a[0] + ux * (node + 8), a[1] + uy * (node + 8)], end = [b[0] - ux * (node + 10), b[1] - uy * (node + 10)];
    const middle = [(a[0] + b[0]) / 2 - uy * bend, (a[1] + b[1]) / 2 + ux * bend];
    const line = s("path", { d: `M${begin[0]} ${begin[1]}Q${middle[0]} ${middle[1]} ${end[0]} ${end[1]}`, fill: "none", stroke: "currentColor", "stroke-width": edge.message ? 1.2 : 2.5, "marker-end": "url(#arrow)" });
    const above = bend !== 0 && ux < -0.3;  // else the second line would lie on the curve
    svg.append(s("g", { class: "quiet" }, line, s("text", { x: middle[0]!, y: middle[1]! + (above ? -16 : bend ? 4 : -8) + nth * 15, "text-anchor": "middle" }, edge.text),
      nth === 0 && edge.place ? s("text", { x: middle[0]!, y: middle[1]! + (above ? 0 : bend ? 20 : 14), "text-anchor": "middle", class: "quiet" }, edge.place) : null));
  });
  graph.nodes.forEach((one, i) => {
    const [x, y] = place[i]!;
    const label = one.ranks.length === 1 ? String(one.ranks[0]) : one.ranks.length <= 4 ? one.ranks.join(", ") : `${one.ranks.length}`;
    const circle = s("circle", { cx: x, cy: y, r: node, "stroke-width": one.culprit ? 3.5 : 2 });
    circle.style.fill = one.culprit ? "var(--culprit-bg)" : "var(--panel)";
    circle.style.stroke = one.culprit ? "var(--culprit)" : "var(--waiting)";
    const name = s("text", { x, y: y + 5, "text-anchor": "middle", "font-weight": one.culprit ? "bold" : "normal" }, label);
    const under = s("text", { x, y: y + node + 16, "text-anchor": "middle", class: "quiet" }, one.ranks.length > 40 ? `${one.ranks.length} ranks` : one.title.slice(0, 40));
    svg.append(withTip(s("g", { tabindex: 0, role: "img", "aria-label": one.title }, circle, name, under), () => [one.title, one.culprit ? "the others wait for it" : one.waits ? "waits" : "is waited for"]));
  });
  return [h("div", { class: "picture wide" }, svg as unknown as HTMLElement),
    table("Waits", ["who waits", "in", "at", "for"], graph.edges.map((edge) => [graph.nodes[edge.from]!.title, edge.text, edge.place, graph.nodes[edge.to]!.title]))];
}

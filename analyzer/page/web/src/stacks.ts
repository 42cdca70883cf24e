import { StackNode, data, text } from "./data";
import { h } from "./dom";
import { Slice, icicle } from "./icicle";
import { table } from "./table";
import { count } from "./units";

const base = (path: string): string => path.split("/").at(-1) ?? "";
const name = (node: StackNode): string => text(node.f) + (text(node.p) ? ` ${base(text(node.p))}${node.l > 0 ? ":" + node.l : ""}` : "");

// Frames that are not the job's are one, unless they are what the rank is in.
function slices(nodes: StackNode[], fold: boolean): Slice[] {
  return nodes.flatMap((node): Slice[] => {
    const children = slices(node.c ?? [], fold);
    if (fold && !node.u && node.c) return children;
    const blamed = node.m === undefined ? "" : `${/[-,]/.test(text(node.m)) ? "culprits: ranks" : "culprit: rank"} ${text(node.m)}`;
    return [{ name: name(node), value: node.n, lines: [`${count(node.n)} rank${node.n === 1 ? "" : "s"}: ${text(node.r)}`, text(node.p) ? `${text(node.p)}:${node.l}` : "", blamed], red: node.x === 1, mark: blamed, folded: !node.u, children }];
  });
}
function leaves(nodes: StackNode[], above: string[]): [string, string, number][] {
  return nodes.flatMap((node): [string, string, number][] => node.c ? leaves(node.c, node.u ? [...above, name(node)] : above) : [[text(node.r), [...above, name(node)].reverse().join(" < "), node.n]]);
}
export function stacks(): HTMLElement[] | null {
  const all = data.stacks;
  if (!all || all.tree.length === 0) return null;
  const draw = (fold: boolean): HTMLElement => icicle({ name: `${count(all.ranks)} rank${all.ranks === 1 ? "" : "s"}`, value: all.tree.reduce((sum, node) => sum + node.n, 0), lines: [], children: slices(all.tree, fold) }, "merged stacks, outermost frame on top");
  const place = h("div", {}, draw(true));
  const box = h("input", { type: "checkbox", change: (event: Event) => place.replaceChildren(draw(!(event.target as HTMLInputElement).checked)) });
  const has = (of: "x" | "m", nodes: StackNode[]): boolean => nodes.some((node) => node[of] !== undefined || has(of, node.c ?? []));
  return [h("p", { class: "quiet" }, `${all.now ? "What every rank does now." : "Where every rank made its last recorded call (no live sample: traintrace attach takes one)."} A frame is as wide as the share of ranks that are in it${has("x", all.tree) ? "; red: only culprits, drawn wider so that one of many is seen" : ""}${has("m", all.tree) ? "; red edge: a culprit among others" : ""}.`),
    h("div", { class: "tools" }, h("label", {}, box, " frames of the interpreter and of libraries too")), place,
    table("Stacks", ["ranks", "stack, innermost first", "number of ranks"], leaves(all.tree, []))];
}

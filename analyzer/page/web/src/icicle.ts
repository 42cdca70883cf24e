import { h, s, withTip } from "./dom";

export interface Slice { name: string; value: number; lines: string[]; red?: boolean; mark?: string; folded?: boolean; children: Slice[] }

// Frames under frames, as wide as what they stand for; a click or Enter on one gives it all the width.
export function icicle(root: Slice, label: string): HTMLElement {
  // One unit is one pixel, so that letters are as large as elsewhere, on a telephone too.
  const row = 22, width = Math.max(340, Math.min(1130, document.documentElement.clientWidth - 36));
  const wrap = h("div", { class: "picture wide icicle" });
  const depth = (slice: Slice): number => 1 + Math.max(0, ...slice.children.map(depth));
  function show(top: Slice, path: Slice[]): void {
    const levels = path.length + depth(top);
    const svg = s("svg", { viewBox: `0 0 ${width} ${levels * row + 2}`, width: "100%", role: "group", "aria-label": label });
    const add = (slice: Slice, x: number, wide: number, level: number, above: Slice[]): void => {
      if (wide < 1) return;
      const box = s("rect", { x, y: level * row + 1, width: Math.max(1, wide - 0.5), height: row - 2, rx: 2 });
      box.style.fill = slice.red ? "#e8756a" : slice.folded ? "#c9cdd3" : `hsl(${28 + (hash(slice.name) % 34)} 78% ${68 + hash(slice.name) % 10}%)`;
      const letters = Math.floor((wide - 8) / 6.4), note = slice.mark && letters > slice.name.length + slice.mark.length + 4 ? ` \u25cf ${slice.mark}` : "";
      const group = s("g", { tabindex: wide > 12 ? 0 : -1, role: "button", "aria-label": `${slice.name}: ${slice.lines.join(", ")}`, click: () => show(slice, above),
        keydown: (event: KeyboardEvent) => { if (event.key === "Enter") show(slice, above); } },
        box, letters > 2 ? s("text", { x: x + (slice.mark ? 9 : 4), y: level * row + 15 }, slice.name.length > letters ? slice.name.slice(0, letters - 1) + "\u2026" : slice.name + note) : null,
        slice.mark ? s("rect", { x, y: level * row + 1, width: 5, height: row - 2, class: "mark" }) : null);
      svg.append(withTip(group, () => [slice.name, ...slice.lines]));
      let next = x;
      // One culprit of a thousand is to be seen as well.
      const least = (child: Slice): number => child.red ? Math.min(90, wide / (slice.children.length + 1)) : 0;
      const room = wide - slice.children.reduce((sum, child) => sum + least(child), 0);
      for (const child of slice.children) {
        const part = least(child) + room * child.value / Math.max(1, slice.value);
        add(child, next, part, level + 1, [...above, slice]);
        next += part;
      }
    };
    path.forEach((slice, i) => add({ ...slice, children: [] }, 0, width, i, path.slice(0, i)));
    add(top, 0, width, path.length, path);
    wrap.replaceChildren(svg);
  }
  show(root, []);
  return wrap;
}
function hash(text: string): number {
  let value = 7;
  for (let i = 0; i < text.length; ++i) value = (value * 31 + text.charCodeAt(i)) % 9973;
  return value;
}

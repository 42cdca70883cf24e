// Where the boxes of the wait graph stand: who is waited for on the left, who waits for them in the columns to the right of
// them; what is in a cycle together as a ring.  Long edges lead through the columns between in gaps of their own.
// targets: whom it waits for; back: those of them that stand to the right of it nevertheless.
export interface Box { width: number; height: number; targets: number[]; back: number[]; cycle: number }
export interface Place { x: number; y: number }
export interface Layout { width: number; height: number; places: Place[]; routes: Map<string, Place[]>; rings: { x: number; y: number; width: number; height: number }[] }

interface Item { members: number[]; width: number; height: number; layer: number; y: number; inner: Place[]; left: Item[]; right: Item[] }
const gapX = 84, gapY = 22, thin = 10;

// The order around a ring: along edges inside it as far as they lead, as in a walk.
function around(members: number[], boxes: Box[]): number[] {
  const rest = new Set(members), order: number[] = [];
  for (let at: number | undefined = members[0]; at !== undefined;) {
    order.push(at);
    rest.delete(at);
    const targets: number[] = boxes[at]!.targets.filter((to) => rest.has(to));
    at = targets[0] ?? [...rest][0];
  }
  return order;
}

// In two columns, down the one and up the other; two stand one above the other, so that lines from the right reach both.
function ring(members: number[], boxes: Box[]): Item {
  const order = around(members, boxes), n = order.length, two = n === 2;
  const wide = Math.max(...order.map((i) => boxes[i]!.width)), tall = Math.max(...order.map((i) => boxes[i]!.height));
  const pad = 26, inner: Place[] = [], bulge = 34;
  const slot = tall + (n <= 6 ? 56 : 34), rows = two ? 2 : Math.ceil(n / 2), few = n - rows;
  const across = two ? wide : 2 * wide + 120 + 2 * bulge;
  order.forEach((i, k) => {
    const box = boxes[i]!, right = k < rows;
    // The shorter column stands in the middle of the longer one, and the ends of both nearer together, so that it looks round.
    const row = right ? k : n - 1 - k + (rows - few) / 2;
    const out = rows > 2 ? bulge * (1 - Math.abs(row - (rows - 1) / 2) / ((rows - 1) / 2)) : 0;
    inner.push({ x: pad + (two ? (wide - box.width) / 2 : right ? across - wide - bulge + out : bulge - out + wide - box.width), y: pad + row * slot + (tall - box.height) / 2 });
  });
  return { members: order, width: across + 2 * pad, height: (rows - 1) * slot + tall + 2 * pad, layer: 0, y: 0, inner, left: [], right: [] };
}

export function layout(boxes: Box[]): Layout {
  const items: Item[] = [], itemOf = new Array<Item>(boxes.length);
  const cycles = new Map<number, number[]>();
  boxes.forEach((box, i) => {
    if (box.cycle >= 0) cycles.set(box.cycle, [...(cycles.get(box.cycle) ?? []), i]);
    else items.push(itemOf[i] = { members: [i], width: box.width, height: box.height, layer: 0, y: 0, inner: [{ x: 0, y: 0 }], left: [], right: [] });
  });
  for (const members of cycles.values()) {
    const one = ring(members, boxes);
    items.push(one);
    members.forEach((i) => { itemOf[i] = one; });
  }
  // Layers: one more than the furthest of those that are waited for.
  const targets = new Map(items.map((item) => [item, [...new Set(item.members.flatMap((i) => boxes[i]!.targets.filter((to) => !boxes[i]!.back.includes(to)).map((to) => itemOf[to]!)))].filter((other) => other !== item)]));
  const known = new Map<Item, number>();
  const layer = (item: Item): number => {
    if (!known.has(item)) { known.set(item, 0); known.set(item, Math.max(-1, ...targets.get(item)!.map(layer)) + 1); }
    return known.get(item)!;
  };
  items.forEach((item) => { item.layer = layer(item); });
  const layers: Item[][] = Array.from({ length: Math.max(...items.map((item) => item.layer)) + 1 }, () => []);
  items.forEach((item) => layers[item.layer]!.push(item));
  const dummies = new Map<string, Item[]>();
  const number = new Map(items.map((item, n) => [item, n]));
  const lead = (item: Item, target: Item, kind: string): void => {
    let before = target;
    const way: Item[] = [];
    for (let at = target.layer + 1; at < item.layer; ++at) {
      const dummy: Item = { members: [], width: 0, height: thin, layer: at, y: 0, inner: [], left: [before], right: [] };
      before.right.push(dummy);
      layers[at]!.push(dummy);
      way.push(dummy);
      before = dummy;
    }
    before.right.push(item);
    item.left.push(before);
    dummies.set(`${kind} ${number.get(item)} ${number.get(target)}`, way);
  };
  items.forEach((item) => targets.get(item)!.forEach((target) => lead(item, target, "to")));
  // Lines that close a cycle need their way as well.
  boxes.forEach((box, i) => box.back.forEach((to) => { if (itemOf[to]!.layer > itemOf[i]!.layer + 1) lead(itemOf[to]!, itemOf[i]!, "back"); }));
  // Fewer crossings: each column in the order of the middle of its neighbours, from left to right and back.
  const rank = (list: Item[]): Map<Item, number> => new Map(list.map((item, i) => [item, i]));
  for (let sweep = 0; sweep < 12; ++sweep) {
    const forth = sweep % 2 === 0;
    for (let k = forth ? 1 : layers.length - 2; forth ? k < layers.length : k >= 0; k += forth ? 1 : -1) {
      const of = rank(layers[forth ? k - 1 : k + 1]!), own = rank(layers[k]!);
      const middle = new Map(layers[k]!.map((item) => {
        const near = (forth ? item.left : item.right).map((other) => of.get(other) ?? 0);
        return [item, near.length > 0 ? near.reduce((a, b) => a + b, 0) / near.length : own.get(item)!];
      }));
      layers[k]!.sort((a, b) => middle.get(a)! - middle.get(b)! || own.get(a)! - own.get(b)!);
    }
  }
  // Each as near to the middle of its neighbours as the order allows.
  const centre = (item: Item): number => item.y + item.height / 2;
  for (const list of layers) list.reduce((y, item) => { item.y = y; return y + item.height + gapY; }, 0);
  for (let sweep = 0; sweep < 16; ++sweep) {
    for (const list of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const wanted = list.map((item) => {
        const near = sweep % 4 < 2 ? item.left.concat(item.right) : sweep % 2 === 0 ? item.left : item.right;
        const use = near.length > 0 ? near : [item];
        return use.reduce((sum, other) => sum + centre(other), 0) / use.length - item.height / 2;
      });
      // Blocks that would overlap move together, at the mean of what they want.
      const blocks: { items: number[]; y: number; height: number }[] = [];
      list.forEach((item, i) => {
        let block = { items: [i], y: wanted[i]!, height: item.height };
        while (blocks.length > 0 && blocks.at(-1)!.y + blocks.at(-1)!.height + gapY > block.y) {
          const above = blocks.pop()!, n = above.items.length, m = block.items.length;
          block = { items: [...above.items, ...block.items], y: (above.y * n + (block.y - above.height - gapY) * m) / (n + m), height: above.height + gapY + block.height };
        }
        blocks.push(block);
      });
      for (const block of blocks) block.items.reduce((y, i) => { list[i]!.y = y; return y + list[i]!.height + gapY; }, block.y);
    }
  }
  const top = Math.min(...layers.flat().map((item) => item.y));
  const lefts: number[] = [];
  const wides = layers.map((list) => Math.max(...list.map((item) => item.width), 0));
  wides.reduce((x, wide, k) => { lefts[k] = x; return x + wide + gapX; }, 12);
  const places: Place[] = [], rings: Layout["rings"] = [];
  for (const item of items) {
    const x = lefts[item.layer]!, y = item.y - top + 12;
    item.members.forEach((i, k) => { places[i] = { x: x + item.inner[k]!.x, y: y + item.inner[k]!.y }; });
    if (item.members.length > 1) rings.push({ x, y, width: item.width, height: item.height });
  }
  // From the one that waits, across the whole of each column.
  const routes = new Map<string, Place[]>();
  boxes.forEach((box, i) => box.targets.forEach((to) => {
    const [left, right] = [number.get(itemOf[i]!), number.get(itemOf[to]!)], back = box.back.includes(to);
    const way = dummies.get(back ? `back ${right} ${left}` : `to ${left} ${right}`) ?? [];
    routes.set(`${i} ${to}`, (back ? way : [...way].reverse()).flatMap((dummy) => {
      const y = centre(dummy) - top + 12, [x, end] = [lefts[dummy.layer]!, lefts[dummy.layer]! + wides[dummy.layer]!];
      return back ? [{ x, y }, { x: end, y }] : [{ x: end, y }, { x, y }];
    }));
  }));
  return { width: lefts.at(-1)! + wides.at(-1)! + 12, height: Math.max(...layers.flat().map((item) => item.y + item.height)) - top + 24, places, routes, rings };
}

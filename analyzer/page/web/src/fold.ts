// The wait graph before it is drawn: states that are alike as one, long chains shortened, what is in a cycle.
import { data } from "./data";
import { count, rankList } from "./units";

export interface Port { text: string; place: string; message: boolean; to: number[] }
export interface Node {
  ranks: number[]; groups: number; culprit: boolean; title: string; note: string; place: string;
  ports: Port[]; cycle: number; shortened: boolean;
  // Closes a cycle that is no ring, and is drawn from left to right.
  back: number[];
}

type Raw = NonNullable<typeof data.waits>;

export function titleOf(ranks: number[]): string {
  const list = rankList(ranks);
  return ranks.length === 1 ? `rank ${list}` : ranks.length === 2 ? `ranks ${list}` : list.length > 24 ? `${count(ranks.length)} ranks: ${list}` : `ranks ${list} (${count(ranks.length)})`;
}

// Tarjan's strongly connected components, without recursion: the number of each node's, in the order that nothing in one
// leads to a later one.
export function components(targets: number[][]): number[] {
  const n = targets.length, index = new Array<number>(n).fill(-1), low = new Array<number>(n).fill(0), of = new Array<number>(n).fill(-1);
  const open: number[] = [];
  let next = 0, found = 0;
  for (let root = 0; root < n; ++root) {
    if (index[root] !== -1) continue;
    const path: [number, number][] = [[root, 0]];
    index[root] = low[root] = next++;
    open.push(root);
    while (path.length > 0) {
      const top = path.at(-1)!, [at, edge] = top;
      if (edge < targets[at]!.length) {
        ++top[1];
        const to = targets[at]![edge]!;
        if (index[to] === -1) {
          index[to] = low[to] = next++;
          open.push(to);
          path.push([to, 0]);
        } else if (of[to] === -1) low[at] = Math.min(low[at]!, index[to]!);
        continue;
      }
      path.pop();
      const above = path.at(-1);
      if (above) low[above[0]] = Math.min(low[above[0]]!, low[at]!);
      if (low[at] !== index[at]) continue;
      for (let one = -1; one !== at;) of[one = open.pop()!] = found;
      ++found;
    }
  }
  return of;
}

const unique = (list: number[]): number[] => [...new Set(list)];
const targetsOf = (count: number, edges: Raw["edges"]): number[][] => {
  const targets: number[][] = Array.from({ length: count }, () => []);
  for (const edge of edges) targets[edge.from]!.push(edge.to);
  return targets.map(unique);
};

// Of each component, whether each of several nodes in it waits for one other of it, and is waited for by one.
function rings(targets: number[][], of: number[]): Set<number> {
  const size = new Map<number, number>(), into = targets.map(() => 0), broken = new Set<number>();
  for (const one of of) size.set(one, (size.get(one) ?? 0) + 1);
  targets.forEach((list, i) => {
    const inside = list.filter((to) => of[to] === of[i] && to !== i);
    inside.forEach((to) => ++into[to]!);
    if (inside.length !== 1) broken.add(of[i]!);
  });
  into.forEach((n, i) => { if (n !== 1) broken.add(of[i]!); });
  return new Set([...size].filter(([one, n]) => n > 1 && !broken.has(one)).map(([one]) => one));
}

// The class of each node: two are alike if they make the same calls from the same lines and those that they wait for are
// alike.  What is in a ring stays by itself: folded it would be a node that waits for itself.
function alike(raw: Raw): number[] {
  const targets = targetsOf(raw.nodes.length, raw.edges), of = components(targets), ring = rings(targets, of);
  const size = new Map<number, number>();
  for (const one of of) size.set(one, (size.get(one) ?? 0) + 1);
  const calls = raw.nodes.map((): string[] => []);
  for (const edge of raw.edges) calls[edge.from]!.push(`${edge.operation} ${edge.place}`);
  const awaited = new Set(raw.edges.map((edge) => edge.to));
  const number = (keys: string[]): number[] => {
    const known = new Map<string, number>();
    return keys.map((key) => { if (!known.has(key)) known.set(key, known.size); return known.get(key)!; });
  };
  let classes = number(raw.nodes.map((node, i) => ring.has(of[i]!) || targets[i]!.includes(i) ? `in a cycle: ${i}`
    : JSON.stringify([size.get(of[i]!)! > 1 ? of[i] : -1, node.culprit, node.doing, awaited.has(i), [...new Set(calls[i])].sort()])));
  for (let before = 0; new Set(classes).size > before;) {
    before = new Set(classes).size;
    const own = classes;
    classes = number(raw.nodes.map((_, i) => JSON.stringify([own[i], unique(targets[i]!.map((to) => own[to]!)).sort((a, b) => a - b)])));
  }
  return classes;
}

// "ncclAllReduce dp #40"; of several communicators "ncclAllReduce of 8 communicators".
function nameOf(edges: Raw["edges"]): string {
  const first = edges[0]!;
  const texts = new Set(edges.map((edge) => edge.text));
  const communicators = new Set(edges.map((edge) => edge.communicator));
  return texts.size === 1 ? first.text : communicators.size > 1 ? `${first.operation} of ${communicators.size} communicators` : `${first.operation} ${first.communicator}, ${texts.size} of them`;
}

function quotient(raw: Raw, classes: number[]): Node[] {
  const order = unique(classes), place = new Map(order.map((one, i) => [one, i]));
  const nodes = order.map((one): Node => {
    const members = raw.nodes.filter((_, i) => classes[i] === one);
    const ranks = members.flatMap((node) => node.ranks).sort((a, b) => a - b);
    const first = members[0]!;
    return { ranks, groups: members.length, culprit: members.some((node) => node.culprit), title: titleOf(ranks), note: first.doing, place: first.at, ports: [], cycle: -1, shortened: false, back: [] };
  });
  const ports = new Map<string, { from: number; edges: Raw["edges"] }>();
  raw.edges.forEach((edge) => {
    const from = place.get(classes[edge.from]!)!;
    const key = JSON.stringify([from, edge.operation, edge.place, nodes[from]!.groups > 1 ? "" : edge.text]);
    if (!ports.has(key)) ports.set(key, { from, edges: [] });
    ports.get(key)!.edges.push(edge);
  });
  for (const { from, edges } of ports.values()) nodes[from]!.ports.push({ text: nameOf(edges), place: edges[0]!.place, message: edges[0]!.message, to: unique(edges.map((edge) => place.get(classes[edge.to]!)!)) });
  return nodes;
}

// Runs of nodes of which each waits for the next, and is waited for by the one before, in the same call: the middle of a long
// one is one node.
function shortenChains(nodes: Node[]): Node[] {
  const least = 7, ends = 2;
  const into = nodes.map(() => 0), out = nodes.map((node) => unique(node.ports.flatMap((port) => port.to)));
  out.forEach((targets) => targets.forEach((to) => ++into[to]!));
  const call = (node: Node): string => node.ports.map((port) => `${port.text.split(" ")[0]} ${port.place}`).join("|");
  const plain = nodes.map((node, i) => !node.culprit && node.ports.length === 1 && out[i]!.length === 1 && into[i] === 1 && out[i]![0] !== i);
  const goesOn = (i: number): boolean => plain[i]! && plain[out[i]![0]!]! && call(nodes[out[i]![0]!]!) === call(nodes[i]!);
  const led = new Set<number>();
  nodes.forEach((_, i) => { if (goesOn(i)) led.add(out[i]![0]!); });
  const gone = new Map<number, number>();  // node -> the one that stands for it
  const seen = new Set<number>();
  // From the head of each run; a ring has none, so from any node of it.
  for (const head of [...nodes.keys()].filter((i) => goesOn(i) && !led.has(i)).concat([...nodes.keys()].filter((i) => goesOn(i)))) {
    if (seen.has(head)) continue;
    const run = [head];
    seen.add(head);
    while (goesOn(run.at(-1)!) && !seen.has(out[run.at(-1)!]![0]!)) { run.push(out[run.at(-1)!]![0]!); seen.add(run.at(-1)!); }
    if (run.length < least) continue;
    const middle = run.slice(ends, run.length - ends), first = nodes[middle[0]!]!;
    const ranks = middle.flatMap((i) => nodes[i]!.ranks).sort((a, b) => a - b);
    nodes[middle[0]!] = { ...first, ranks, groups: middle.length, title: titleOf(ranks), note: `${middle.length} states: each waits for the next`, shortened: true,
      ports: [{ ...first.ports[0]!, text: first.ports[0]!.text.replace(/#.*/, "").trim(), to: nodes[middle.at(-1)!]!.ports[0]!.to }] };
    middle.slice(1).forEach((i) => gone.set(i, middle[0]!));
  }
  if (gone.size === 0) return nodes;
  const kept = [...nodes.keys()].filter((i) => !gone.has(i)), place = new Map(kept.map((i, n) => [i, n]));
  return kept.map((i) => ({ ...nodes[i]!, ports: nodes[i]!.ports.map((port) => ({ ...port, to: unique(port.to.map((to) => place.get(gone.get(to) ?? to)!)) })) }));
}

// What is in cycles that are no rings is drawn in columns like the rest: whom most wait for, a culprit first, stands left as if
// it waited for nobody in the cycle, and lines lead back from there.
function breakCycles(nodes: Node[]): void {
  const targets = nodes.map((node) => unique(node.ports.flatMap((port) => port.to)));
  for (let guard = 0; guard < nodes.length; ++guard) {
    const left = targets.map((list, i) => list.filter((to) => to !== i && !nodes[i]!.back.includes(to)));
    const of = components(left), ring = rings(left, of);
    const members = new Map<number, number[]>();
    of.forEach((one, i) => members.set(one, [...(members.get(one) ?? []), i]));
    nodes.forEach((node, i) => { node.cycle = ring.has(of[i]!) ? of[i]! : -1; });
    const tangled = [...members].filter(([one, list]) => list.length > 1 && !ring.has(one));
    if (tangled.length === 0) return;
    for (const [one, list] of tangled) {
      const awaited = (i: number): number => list.filter((from) => left[from]!.includes(i)).length - left[i]!.filter((to) => of[to] === one).length + (nodes[i]!.culprit ? 1e6 : 0);
      const root = list.reduce((best, i) => awaited(i) > awaited(best) ? i : best);
      nodes[root]!.back.push(...left[root]!.filter((to) => of[to] === one));
    }
  }
}

export function folded(raw: Raw, fold: boolean): Node[] {
  let nodes = quotient(raw, fold && raw.nodes.length > 8 ? alike(raw) : raw.nodes.map((_, i) => i));
  if (fold) nodes = shortenChains(nodes);
  breakCycles(nodes);
  return nodes;
}

// Edges that follow from others: who waits for one that waits for a third waits for that one too.
export function implied(nodes: Node[]): Set<string> {
  const targets = nodes.map((node, i) => unique(node.ports.flatMap((port) => port.to)).filter((to) => to !== i && !node.back.includes(to) && (node.cycle < 0 || nodes[to]!.cycle !== node.cycle)));
  const below = new Map<number, Set<number>>();
  const reach = (i: number): Set<number> => {
    const known = below.get(i);
    if (known) return known;
    const all = new Set<number>();
    below.set(i, all);
    for (const to of targets[i]!) { all.add(to); reach(to).forEach((one) => all.add(one)); }
    return all;
  };
  const found = new Set<string>();
  targets.forEach((list, i) => list.forEach((to) => {
    if (list.some((other) => other !== to && reach(other).has(to) && !reach(to).has(other))) found.add(`${i} ${to}`);
  }));
  return found;
}

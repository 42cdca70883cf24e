import { Actor, Finding, data } from "./data";
import { copy, h } from "./dom";
import { linkTo } from "./numbers";
import { bytes, count, forPeople, percent } from "./units";

const meanings: Record<string, string> = {
  PROVEN: "proof: what was recorded allows no other explanation",
  LIKELY: "likely: the evidence points here, and something that would settle it is missing",
  POSSIBLE: "possible: something is wrong, but the evidence does not show where it began",
};
const docs = (code: string): HTMLElement => h("code", { title: `traintrace findings ${code} explains it` }, code);

function place(file: string, path: string, line: number): HTMLElement {
  const name = line > 0 ? `${file}:${line}` : file;
  return path.startsWith("/") && !/\s/.test(path)
    ? h("a", { href: `vscode://file${encodeURI(path)}:${line}`, title: "open in the editor", class: "mono" }, name) : h("span", { class: "mono" }, name);
}

// Without the blanks that all lines begin with.
function dedented(source: Actor["source"]): Actor["source"] {
  const blanks = Math.min(...source.filter((line) => line.text.trim() !== "").map((line) => line.text.search(/\S/)));
  return source.map((line) => ({ ...line, text: line.text.slice(blanks) }));
}

function actor(actor: Actor): HTMLElement {
  return h("article", { class: actor.culprit ? "actor culprit" : "actor" },
    h("h3", {}, actor.culprit ? "\u25cf " : "", actor.title), h("p", { class: "quiet" }, actor.who), h("p", {}, actor.doing),
    actor.framesAre && h("p", { class: "quiet" }, actor.framesAre),
    actor.source.length > 0 && h("pre", { class: "source", tabindex: 0, "aria-label": "source" },
      ...dedented(actor.source).map((line) => h("span", line.marked ? { class: "marked" } : {}, `${String(line.n).padStart(5)}  ${line.text}`))),
    actor.frames.length > 0 && h("ol", { class: "frames" }, ...actor.frames.slice(0, 6).map((frame) =>
      h("li", {}, place(frame.file, frame.path, frame.line), frame.file !== "" ? " " : "", h("span", { class: "quiet" }, frame.function)))));
}

// For a chat or an issue: no markup, nothing that only this page knows.
export function asText(): string {
  const card = data.card;
  if (!card) return data.verdict;
  const lines = [`${card.kind}: ${card.headline} [${card.certainty.toLowerCase()}]`];
  lines.push(...card.notes);
  for (const one of card.actors) {
    lines.push(`- ${one.title} (${one.who}): ${one.doing}`);
    const top = one.frames[0];
    if (top) lines.push(`    ${one.framesAre ? `${one.framesAre} ` : ""}${top.file}:${top.line} ${top.function}`);
    for (const line of one.source) if (line.marked) lines.push(`    > ${line.text.trim()}`);
  }
  for (const line of card.why) lines.push(`  ${line}`);
  if (card.advice) lines.push(`To do: ${card.advice}`);
  return [...lines, data.run_line].join("\n");
}

// "held: 2.19 GiB (55 % of the device) in 7 blocks, train.py:11 in activations: kept", "free: 1 MiB (1 % of the device's 4 GiB), ..":
// rows of the table of memory.
const row = /^(held|free): (\S+ \S+)(?: \((\d+) % of ([^)]*)\))?(?:,? (.*))?$/;
function held(lines: string[], failed: boolean): HTMLElement | null {
  const rows = lines.map((line) => row.exec(line)).filter((found) => found !== null);
  if (rows.length === 0) return null;
  const shares = rows.some((found) => found[3]), whole = rows.at(-1)![4] ?? rows[0]![4];
  return h("div", { class: "scroll" }, h("table", { class: shares ? "held" : "held bare" }, h("caption", {}, `${failed ? "Memory when it failed" : "Memory in use"}${whole ? `, shares of ${whole}` : ""}`),
    h("tbody", {}, ...rows.map(([, kind, size, share, , what]) => h("tr", {}, h("td", { class: "number" }, size!), ...(shares ? [h("td", { class: "number" }, share ? `${share} %` : ""),
      h("td", {}, share ? h("meter", { min: 0, max: 100, value: share, class: kind!, "aria-label": `${share} %` }) : null)] : []), h("td", {}, kind === "free" ? h("b", {}, `free${what ? `, ${what}` : ""}`) : what ?? ""))))));
}

// "133120 records" -> "133,120 records"
const grouped = (line: string): string => line.replace(/\d{4,}(?= (records|of|ranks))/g, (figure) => count(Number(figure)));

// "Another problem: .."
function note(line: string): HTMLElement {
  const [head, ...rest] = line.split(": ");
  return h("p", { class: "note" }, rest.length > 0 ? h("b", {}, `${head}: `) : null, rest.length > 0 ? rest.join(": ") : h("b", {}, line));
}

// Who holds the memory, where the finding says so.
function owners(finding: Finding): HTMLElement | null {
  const list = finding.owners ?? [];
  const all = list.reduce((sum, owner) => sum + owner.bytes, 0);
  if (list.length === 0) return null;
  return h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "quiet" }, "who held the memory"),
    h("tbody", {}, ...list.map((owner) => h("tr", {}, h("td", { class: "number" }, bytes(owner.bytes)),
      h("td", { class: "number" }, owner.percent !== undefined ? `${owner.percent} %` : percent(owner.bytes, all)),
      h("td", {}, h("meter", { min: 0, max: all, value: owner.bytes })), h("td", {}, owner.class ?? ""), h("td", { class: "mono" }, owner.where ?? ""),
      h("td", {}, owner.growth_bytes_per_step ? `grew ${bytes(owner.growth_bytes_per_step)}/step` : ""))))));
}

// The pictures of the numbers that a finding is about.
function pictures(one: Finding): HTMLElement[] {
  const index = data.findings.indexOf(one);
  return (data.numbers?.charts ?? []).filter((chart) => chart.findings.includes(index))
    .map((chart) => h("p", {}, h("a", { href: linkTo(chart), class: "numbers" }, `see the numbers: ${chart.name}`)));
}

function finding(one: Finding): HTMLElement {
  return h("details", { class: `finding ${one.severity}`, id: `finding-${one.code}` },
    h("summary", {}, docs(one.code), ` ${one.certainty === "proof" ? "proven" : one.certainty}: ${forPeople(one.title)}`), owners(one),
    h("ul", {}, ...one.where.map((at) => h("li", { class: "mono" }, `rank ${at.rank}: ${at.file}${at.line ? ":" + at.line : ""} ${at.function}`)),
      ...one.evidence.map((line) => h("li", {}, forPeople(line)))), ...pictures(one), one.advice ? h("p", {}, forPeople(one.advice)) : null);
}

export function verdict(): HTMLElement[] {
  const card = data.card;
  const leading = data.findings[data.leading];
  if (!card || !leading) return [h("div", { class: "card" }, h("h1", {}, data.verdict), h("p", { class: "quiet" }, data.run_line))];
  const slack: HTMLButtonElement = h("button", { id: "copy-verdict", click: () => void copy(asText(), slack) }, "copy as text");
  const missing = data.findings.filter((one) => one.code.startsWith("trace.") && one !== leading).map((one) => forPeople(one.title));
  const gravity = ["error", "warning", "info"];
  const others = data.findings.filter((one) => one !== leading).sort((a, b) => gravity.indexOf(a.severity) - gravity.indexOf(b.severity));
  const errors = leading.severity === "error" ? others.filter((one) => one.severity === "error") : [];
  const roots = errors.filter((one) => one.root), consequences = errors.filter((one) => !one.root);
  const rest = others.filter((one) => !errors.includes(one));
  const section = (title: string, list: Finding[]): HTMLElement[] => list.length > 0 ? [h("h3", {}, title), ...list.map(finding)] : [];
  const why = card.why.filter((line) => !row.test(line));
  return [
    h("div", { class: `card ${leading.severity}` },
      h("p", {}, h("span", { class: `chip ${leading.severity}` }, card.kind), " ",
        h("span", { class: "chip", title: meanings[card.certainty] ?? "", tabindex: 0 }, card.certainty), " ", slack),
      h("h1", { id: "headline" }, card.headline), ...card.notes.map(note), owners(leading), held(card.why, card.kind === "OUT OF MEMORY"),
      why.length > 0 && h("ul", {}, ...why.slice(0, 12).map((line) => h("li", {}, line)), why.length > 12 ? h("li", { class: "quiet" }, `and ${why.length - 12} lines more, below`) : null),
      ...pictures(leading), card.advice ? h("p", {}, h("b", {}, "What to do: "), card.advice) : null,
      h("dl", { class: "next" }, ...card.next.filter((next) => !next.command.includes("--format=html")).flatMap((next) => [h("dt", {}, h("code", {}, next.command)), h("dd", { class: "quiet" }, next.purpose)])),
      h("p", { class: "quiet" }, grouped(data.run_line), " \u00b7 ", docs(leading.code)),
      ...[...data.losses.map((loss) => loss.text), ...new Set(missing)]
        .slice(0, 6).map((line) => h("p", { class: "quiet" }, "Missing from the evidence: ", line))),
    h("div", { class: "actors" }, ...card.actors.map(actor)),
    ...section(roots.length === 1 ? "One more root cause" : `${roots.length} more root causes`, roots),
    ...section("What came of it", consequences),
    ...section("Other findings", rest),
    h("details", {}, h("summary", {}, "all evidence of this finding"), finding(leading)),
  ];
}

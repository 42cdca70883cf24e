// Elements made without markup: whatever a trace has for names stays text.
type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: any) => void)>;

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
}
export function h<K extends keyof HTMLElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  fill(element, attributes, children);
  return element;
}
export function s<K extends keyof SVGElementTagNameMap>(name: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(element, attributes, children);
  return element;
}

// One tooltip for all pictures: what the pointer or the keyboard is on.
const tip = h("div", { id: "tip", role: "status", hidden: true });
document.body.append(tip);
export function showTip(lines: string[], x: number, y: number): void {
  tip.replaceChildren(...lines.filter((line) => line !== "").map((line, i) => h(i === 0 ? "b" : "div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
}
export function hideTip(): void { tip.hidden = true; }
export function withTip<T extends Element>(element: T, lines: () => string[]): T {
  const show = (event: MouseEvent): void => { event.stopPropagation(); showTip(lines(), event.clientX, event.clientY); };
  element.addEventListener("mousemove", show as EventListener);
  element.addEventListener("mouseleave", hideTip);
  element.addEventListener("focus", () => { const box = element.getBoundingClientRect(); showTip(lines(), box.left, box.bottom - 12); });
  element.addEventListener("blur", hideTip);
  return element;
}
export async function copy(text: string, button: HTMLElement): Promise<void> {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // pages from disk may not
    const area = h("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}
export const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

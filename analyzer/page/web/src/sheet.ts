// The head of a page of `report` or `diff`: what it says, of what, and what to type next.
import { data } from "./data";
import { copy, h } from "./dom";

export function head(kind: string, more: (Node | null)[], text: () => string): HTMLElement[] {
  const button: HTMLButtonElement = h("button", { id: "copy-verdict", click: () => void copy(text(), button) }, "copy as text");
  return [h("div", { class: "card info" }, h("p", {}, h("span", { class: "chip info" }, kind), " ", button), h("h1", { id: "headline" }, data.title!), ...more,
    h("dl", { class: "inputs" }, ...data.inputs!.flatMap(([name, path]) => [h("dt", {}, h("b", {}, name)), h("dd", {}, h("code", {}, path))])),
    h("dl", { class: "next" }, ...data.next!.flatMap((next) => [h("dt", {}, h("code", {}, next.command)), h("dd", { class: "quiet" }, next.purpose)])))];
}

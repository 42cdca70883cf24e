import { data } from "./data";
import { h, hideTip } from "./dom";
import { diffScreens } from "./diff";
import { environment } from "./environment";
import { lanes } from "./lanes";
import { memory } from "./memory";
import { numbers } from "./numbers";
import { forPaper } from "./paper";
import { reportScreens } from "./report";
import { ranks } from "./ranks";
import { stacks } from "./stacks";
import { choose, link, pinned, screen, whenChosen } from "./state";
import { steps } from "./steps";
import { verdict } from "./verdict";
import { waits } from "./waits";

type Screen = [string, string, string, () => HTMLElement[] | null];
const parted = data.lanes?.parted != null;
const screens: Screen[] = data.report ? reportScreens() : data.diff ? diffScreens() : [
  ["verdict", "Verdict", "", verdict],
  ["ranks", "Ranks", "Which ranks: state of each GPU", ranks],
  ["moment", parted ? "The moment" : "Operations", parted ? "The moment the ranks parted" : "The last operations of each rank", lanes],
  ["waits", "Who waits", "Who waits for whom", waits],
  ["stacks", "Stacks", "Where the ranks are: merged stacks", stacks],
  ["memory", "Memory", "Memory", memory],
  ["steps", "Steps", "Where GPU time went", steps],
  ["numbers", "Numbers", "Numbers: losses, norms and what else was recorded", numbers],
  ["environment", "Environment", "Versions, settings, lost records", environment],
];

// The screen that the verdict is about comes second.
const about = Object.entries({ "latency.": "steps", "memory.": "memory", "numeric.": "numbers" }).find(([code]) => data.findings?.[data.leading]?.code.startsWith(code))?.[1];
const first = screens.findIndex(([id]) => id === about);
if (first > 0) screens.splice(1, 0, ...screens.splice(first, 1));

const main = h("main");
const nav = h("nav", { "aria-label": "screens" });
const shown: string[] = [];
for (const [id, name, title, make] of screens) {
  let parts: HTMLElement[] | null;
  try {
    parts = make();
  } catch (error) {  // one picture must not cost the others
    console.error(error);
    parts = [h("p", {}, `This could not be drawn: ${error}`)];
  }
  if (!parts) continue;
  shown.push(id);
  nav.append(h("a", { href: `#${id}`, "data-screen": id }, name));
  main.append(h("section", { id, "aria-label": title || name }, title ? h("h2", {}, h("a", { href: `#${id}`, "data-screen": id }, title)) : null, ...parts));
}
const pin = h("button", { class: "pin", click: () => choose("rank", null), title: "unpin" });
const theme = h("button", { title: "light or dark (t)", "aria-label": "light or dark", click: switchTheme }, "\u25d0");
const help = h("dialog", { class: "help" }, h("h2", {}, "Keys"),
  ...[["1 .. 9", "go to a screen"], ["j, k", "next, previous screen"], ["arrows, Enter", "in the pictures: move, pin or open"], ["+ - 0", "in the lanes: zoom, all"], ["t", "light or dark"], ["c", "copy the verdict as text"], ["Esc", "unpin"]]
    .map(([keys, what]) => h("p", {}, h("kbd", {}, keys!), " ", what!)), h("form", { method: "dialog" }, h("button", {}, "close")));
nav.append(pin, theme, h("button", { title: "keys (?)", click: () => help.showModal() }, "?"));
document.body.append(h("header", {}, nav), main, help);
document.getElementById("plain")!.remove();

function switchTheme(): void {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  dispatchEvent(new Event("resize"));
}
// The screen under the head of the window; at the end of the page that which was asked for, if it is in sight.
let seen = screen() || "verdict";
function look(): void {
  const place = (id: string): DOMRect => document.getElementById(id)!.getBoundingClientRect();
  const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
  const asked = shown.includes(screen()) && place(screen()).top < innerHeight ? screen() : shown.at(-1)!;
  const now = end && scrollY > 0 ? asked : shown.filter((id) => place(id).top < 90).at(-1) ?? shown[0]!;
  if (now === seen) return;
  seen = now;
  showPin();
}
addEventListener("scroll", look, { passive: true });
function showPin(): void {
  pin.hidden = pinned() === null;
  pin.textContent = `rank ${pinned()} \u00d7`;
  for (const one of document.querySelectorAll<HTMLAnchorElement>("a[data-screen]")) {
    one.href = link(one.dataset.screen!);
    one.setAttribute("aria-current", String(one.dataset.screen === seen));
  }
}
const go = (id: string | undefined): void => {
  if (!id) return;
  location.hash = link(id);
  seen = id;  // the next key counts from here, however long the window takes to come here
  showPin();
};
const show = (id: string): void => document.getElementById(id)?.scrollIntoView();
let before = screen();
addEventListener("hashchange", () => {
  if (screen() !== before) show(screen());  // not where only a pin went
  before = screen();
});
addEventListener("click", (event) => {  // of the screen that is in the address already too
  const id = (event.target as Element).closest<HTMLElement>("a[data-screen]")?.dataset.screen;
  if (id && id === screen()) show(id);
});
addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) return;
  const current = Math.max(0, shown.indexOf(seen));
  if (/^[1-9]$/.test(event.key)) go(screens[Number(event.key) - 1]![0]);
  else if (event.key === "j") go(shown[Math.min(current + 1, shown.length - 1)]);
  else if (event.key === "k") go(shown[Math.max(current - 1, 0)]);
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") help.showModal();
  else if (event.key === "c") document.getElementById("copy-verdict")?.click();
  else if (event.key === "Escape") { hideTip(); choose("rank", null); }
});
forPaper(main);
whenChosen(showPin);
showPin();
if (screen()) requestAnimationFrame(() => document.getElementById(screen())?.scrollIntoView());
document.documentElement.dataset.ready = String(Math.round(performance.now()));  // ms, as the tests measure

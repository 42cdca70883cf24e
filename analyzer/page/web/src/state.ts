// What the screens share: the pinned rank, and the address behind the '#'.
type Listener = () => void;
const listeners: Listener[] = [];
const parameters = (): URLSearchParams => new URLSearchParams(location.hash.split("?")[1] ?? "");
export const screen = (): string => location.hash.replace("#", "").split("?")[0]!;
export const option = (name: string): string | null => parameters().get(name);
export const pinned = (): number | null => { const rank = option("rank"); return rank === null || rank === "" ? null : Number(rank); };
// All that is chosen stands in the address, so that it can be sent to somebody.
export function choose(name: string, value: string | null, at = screen()): void {
  const all = parameters();
  if (value === null) all.delete(name); else all.set(name, value);
  const query = all.toString();
  const address = `#${at}${query ? "?" + query : ""}`;
  // Back undoes a pin, and leaves alone what changes with each turn of a wheel.
  if (name === "rank" && address !== location.hash) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  for (const listener of listeners) listener();
}
export const link = (name: string): string => { const query = parameters().toString(); return `#${name}${query ? "?" + query : ""}`; };
export const whenChosen = (listener: Listener): void => { listeners.push(listener); };
addEventListener("popstate", () => { for (const listener of listeners) listener(); });

// Opens each page in Chromium, from disk: the verdict is there, pictures and keys work, nothing is asked of a network,
// nothing is complained about.  Prints what was measured; asserts nothing on time.
//   node page.mjs FOLDER NODE_MODULES [keep]     keep: with screenshots of all pages
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, modules, keep] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");
const { browser: path, pages, sheets } = JSON.parse(readFileSync(join(folder, "pages.json"), "utf8"));
const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-gpu"] });

async function open(one, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("dialog", (dialog) => { wrong.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith("file:")) wrong.push(`asks for ${request.url()}`); });
  const began = performance.now();
  await page.goto(pathToFileURL(one.page).href + (options.at ?? ""));
  if (options.javaScriptEnabled !== false) await page.waitForFunction(() => document.documentElement.dataset.ready);
  return { page, context, wrong, took: performance.now() - began };
}
const done = async (one, { context, wrong }) => { assert.deepEqual(wrong, [], one.name); await context.close(); };
const screenshot = async (page, name, fullPage = true) => { if (keep) await page.screenshot({ path: join(folder, `${name}.png`), fullPage }); };

// What holds for each page, all in one window.
async function everywhere(one) {
  const opened = await open(one);
  const { page } = opened;
  await verdict(one, opened);
  await labels(one, page);
  await screens(one, page);
  if (one.about) assert.equal(await page.locator("main > section").nth(1).getAttribute("id"), one.about, `${one.name}: what the verdict is about comes second`);
  if (one.screen) assert.ok(await page.locator(`#${one.screen} .picture`).count() > 0, `${one.name} has ${one.screen}`);
  await graph(one, page);
  await headline(one, page);
  await done(one, opened);
}

// The lanes frame the call of the headline, and no other; the grid, the graph and the lanes mark the same ranks.
async function headline(one, page) {
  const { lanes, findings, leading, texts, ranks, waits } = JSON.parse(await page.textContent("#data"));
  const { sequence, sequence_last: last = sequence, operation, severity, culprits, code, communicators } = findings[leading];
  const bars = (lanes?.lanes ?? []).flatMap((lane) => lane.bars.map(([begin, end, , number, text, kind, framed]) => ({ rank: lane.rank, begin, end, number, text: texts[text], kind, framed })));
  const framed = bars.filter((bar) => bar.framed === 1);
  if (one.framed) assert.deepEqual(framed.map((bar) => `${bar.rank}: ${bar.text} #${bar.number}`), one.framed, `${one.name}: what is framed`);
  if (sequence && !communicators && !code.startsWith("p2p.")) for (const bar of framed) assert.ok(bar.number >= sequence && bar.number <= last, `${one.name}: another call is framed`);
  if (framed.length > 0) assert.ok(await page.evaluate(() => Number(document.querySelector("#moment canvas").dataset.framed)) > 0, `${one.name}: the frame is in sight`);
  if (severity === "info" || !ranks) return;
  const state = (rank) => texts[ranks.state[ranks.rank.indexOf(rank)]];
  for (const { rank, kind } of bars) if (kind === "waits" && severity === "error" && operation) assert.notEqual(state(rank), "moving", `${one.name}: rank ${rank} waits in its lane`);
  for (const node of waits?.nodes ?? []) for (const rank of node.ranks) assert.equal(node.culprit, state(rank) === "culprit", `${one.name}: rank ${rank} in the graph`);
  if (culprits.length > 0 && !/^(latency|memory)/.test(code)) for (const rank of culprits) if (ranks.rank.includes(rank)) assert.equal(state(rank), "culprit", one.name);
}

async function verdict(one, { page, took }) {
  const data = JSON.parse(await page.textContent("#data"));
  assert.equal(data.schema, "traintrace.page/1");
  assert.equal(data.findings[data.leading].code, one.code);
  const headline = await page.textContent("#headline");
  assert.equal(headline, data.card.headline);
  assert.equal(await page.title(), `${data.card.kind}: ${data.card.headline}`, "the name of the tab says what happened");
  assert.equal(await page.locator("#verdict .card .note").count(), data.card.notes.length, "what to know first is told");
  for (const rank of one.culprits.slice(0, 2)) assert.match(await page.textContent("#verdict"), new RegExp(`\\b${rank}\\b`), one.name);
  assert.equal(await page.locator("#plain").count(), 0, "the plain text gave way");
  const frame = await page.evaluate(() => document.querySelector("#moment canvas")?.dataset.frame);
  console.log(`${one.name}: opened in ${took.toFixed(0)} ms${frame ? `, lanes drawn in ${frame} ms` : ""}`);
  await screenshot(page, one.name);
}

async function keyboard(one) {
  const opened = await open(one);
  const { page } = opened;
  await page.keyboard.press("2");
  await page.waitForFunction(() => location.hash === "#ranks");
  await page.keyboard.press("j");
  await page.waitForFunction(() => location.hash !== "#ranks");
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.locator("#stacks").evaluate((section) => section.scrollIntoView());
  await page.waitForFunction(() => document.querySelector("nav a[aria-current=true]").dataset.screen === "stacks");
  await page.keyboard.press("t");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), before, "t switches light and dark");
  await screenshot(page, `${one.name}-dark`);
  await page.locator("#ranks canvas").focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#tip"), /^rank 0/);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("rank=1"));
  assert.match(await page.textContent("nav .pin"), /rank 1/);
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes("rank="));
  assert.ok(await page.locator("nav .pin").isHidden(), "Back undoes a pin");
  await page.goForward();
  await page.waitForFunction(() => location.hash.includes("rank=1"));
  await page.locator("h1").click();
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !location.hash.includes("rank="));
  await page.keyboard.press("?");
  assert.ok(await page.locator("dialog").isVisible());
  await done(one, opened);
}

async function tables(one) {
  const opened = await open(one);
  const { page } = opened;
  await page.locator("#ranks summary").first().click();
  const rows = page.locator("#ranks details").first().locator("tbody tr");
  const all = await rows.count();
  await page.locator("#ranks input[type=search]").first().fill("culprit");
  assert.ok(await rows.count() === one.culprits.length && all > one.culprits.length, "the filter keeps the culprits");
  await page.locator("#ranks input[type=search]").first().fill("");
  await page.locator("#ranks details th button").first().click();
  const sorted = await page.locator("#ranks details th").first().getAttribute("aria-sort");
  assert.ok(["ascending", "descending"].includes(sorted));
  await done(one, opened);
}

async function lanes(one) {
  const opened = await open(one, { at: "#moment" });
  const { page } = opened;
  const canvas = page.locator("#moment canvas");
  await page.waitForFunction(() => document.querySelector("#moment canvas").dataset.frame);
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  // Some bar lies under the right part of a lane: a wait, or what the culprit does instead.
  await page.mouse.move(box.x + box.width * 0.9, box.y + 22 + 17);
  await page.waitForFunction(() => !document.getElementById("tip").hidden);
  assert.match(await page.textContent("#tip"), /rank \d+: /);
  await page.mouse.wheel(0, -400);
  await page.waitForFunction(() => location.hash.includes("time="));
  const permalink = await page.evaluate(() => location.hash);
  const frames = await page.evaluate(async () => {
    const canvas = document.querySelector("#moment canvas");
    canvas.focus();
    const began = performance.now();
    let count = 0;
    while (performance.now() - began < 500) {
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key: count % 20 < 10 ? "ArrowRight" : "ArrowLeft" }));
      await new Promise(requestAnimationFrame);
      ++count;
    }
    return count * 2;
  });
  console.log(`${one.name}: pans at ${frames} frames a second`);
  await done(one, opened);
  const again = await open(one, { at: permalink });
  assert.equal(await again.page.evaluate(() => location.hash), permalink, "the address brings back what was seen");
  await done(one, again);
}

async function grid(one) {
  const opened = await open(one, { at: "#ranks" });
  const { page } = opened;
  const canvas = page.locator("#ranks canvas");
  const box = await canvas.boundingBox();
  assert.ok(box.height > 40);
  await page.mouse.move(box.x + 10, box.y + 10);
  await page.waitForFunction(() => !document.getElementById("tip").hidden);
  assert.match(await page.textContent("#tip"), /rank 0: waiting/);
  await canvas.click({ position: { x: 10, y: 10 } });
  await page.waitForFunction(() => location.hash.includes("rank=0"));
  assert.match(await page.textContent("#waits"), /\(1,023\)/, "equal ranks are one");
  await done(one, opened);
}

async function bare(one) {
  const opened = await open(one, { javaScriptEnabled: false });
  assert.match(await opened.page.textContent("#plain h1"), /never entered/, "without programs the text is there");
  await opened.context.close();
  const print = await open(one);
  const background = () => print.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  // A letter in the picture of the lanes, which style sheets do not reach.
  const ink = () => print.page.evaluate(() => {
    const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    copy.drawImage(document.querySelector("#moment canvas"), 0, 0);
    const { data } = copy.getImageData(0, 30, 60, 20);
    let darkest = 255;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) darkest = Math.min(darkest, data[i]);
    return darkest;
  });
  await print.page.emulateMedia({ media: "print" });
  await print.page.evaluate(() => { document.documentElement.dataset.theme = "dark"; dispatchEvent(new Event("resize")); });
  assert.ok(await ink() > 150, "light letters in the dark");
  assert.ok(!await print.page.locator("header").isVisible());
  assert.ok((await print.page.pdf()).length > 10000);
  await print.page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const paper = await print.page.evaluate(() => {
    const table = [...document.querySelectorAll("details.table table")].at(-1), style = (element) => getComputedStyle(element);
    const rows = [...document.querySelectorAll("details.table")].map((one) => [...one.querySelectorAll("tbody tr")].filter((row) => style(row).display !== "none").length);
    const noted = [...document.querySelectorAll("details.table")].filter((one) => one.querySelectorAll("tbody tr").length > 40 !== (one.querySelector(".on-paper").textContent !== ""));
    return { button: style(table.querySelector("th button")).display, most: Math.max(...rows), noted: noted.length, closed: document.querySelectorAll("details:not([open])").length, head: style(table.tHead).display, cell: style(table.querySelector("thead th")).position,
      scroll: style(table.closest(".scroll")).overflowY, zoom: Number(style(document.querySelector("main")).zoom) };
  });
  assert.deepEqual([paper.closed, paper.head, paper.cell, paper.scroll], [0, "table-header-group", "static", "visible"], "headings stand on each page");
  assert.equal(paper.button, "contents", "a button would be left out of the heading of the second page");
  assert.deepEqual([paper.most, paper.noted], [40, 0], "long tables are cut, and that is said");
  assert.equal(await background(), "rgb(255, 255, 255)", "paper is white");
  assert.ok(await ink() < 100, "dark letters on paper");
  assert.ok(paper.zoom < 1, "what is as wide as the window fits the page");
  await print.page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.ok(await print.page.locator("details:not([open])").count() > 3, "and what was opened is closed again");
  assert.notEqual(await background(), "rgb(255, 255, 255)", "and dark as before");
  await done(one, print);
  const narrow = await open(one, { viewport: { width: 390, height: 800 } });
  assert.ok(await narrow.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "fits a telephone");
  await screenshot(narrow.page, `${one.name}-narrow`, false);
  await done(one, narrow);
}

async function labels(one, page) {
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("canvas, svg[role], select, input, button, a")]
    .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label") || e.title)).map((e) => e.outerHTML.slice(0, 90)));
  assert.deepEqual(unnamed, [], `${one.name}: without a name for who cannot see`);
}

// Each screen has an address, a heading, and a table behind its picture.
async function screens(one, page) {
  const names = await page.evaluate(() => [...document.querySelectorAll("nav a[data-screen]")].map((a) => a.dataset.screen));
  assert.ok(names.includes("verdict") && names.includes("environment"), one.name);
  for (const name of names) {
    await page.locator(`nav a[data-screen=${name}]`).click();
    await page.waitForFunction((name) => location.hash.split("?")[0] === `#${name}`, name);
  }
  const bare = await page.evaluate(() => [...document.querySelectorAll("main > section")].filter((section) => section.querySelector(".picture") && !section.querySelector("details.table")).map((section) => section.id));
  assert.deepEqual(bare, [], `${one.name}: a picture without a table`);
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("main > section")].filter((section) => !section.getAttribute("aria-label") || !section.querySelector("h1, h2")).map((section) => section.id));
  assert.deepEqual(unnamed, [], `${one.name}: a screen without a name`);
}

// Text that is read has 4.5 times the light of its ground or the reverse (WCAG AA); large or bold text has 3 times.
async function contrast(one, page, theme) {
  const faint = await page.evaluate(() => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const over = (ground, colour) => { pen.fillStyle = `rgb(${ground})`; pen.fillRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3); };
    const ground = (element) => element === null ? [255, 255, 255] : over(ground(element.parentElement), getComputedStyle(element).backgroundColor);
    const light = (colour) => colour.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const wrong = [];
    for (const element of document.querySelectorAll("body *")) {
      if (element.closest("svg, canvas, script, style, [hidden], dialog:not([open]), .u-legend") || element.closest("details:not([open]) > :not(summary)")) continue;
      if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "")) continue;
      const style = getComputedStyle(element), behind = ground(element), [a, b] = [light(over(behind, style.color)), light(behind)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
      const least = size >= 24 || size >= 18.6 && Number(style.fontWeight) >= 600 || element.matches(".legend i") ? 3 : 4.5;
      if (ratio < least) wrong.push(`${element.className || element.tagName} "${element.textContent.trim().slice(0, 30)}": ${ratio.toFixed(2)}`);
    }
    return [...new Set(wrong)];
  });
  assert.deepEqual(faint, [], `${one.name}, ${theme}: low contrast`);
}

// On a telephone and in both themes.
async function everyhow(one) {
  for (const [colorScheme, width] of [["light", 1280], ["dark", 390]]) {
    const opened = await open(one, { viewport: { width, height: 800 }, colorScheme });
    const { page } = opened;
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${one.name} fits ${width}`);
    await contrast(one, page, colorScheme);
    await screenshot(page, `${one.name}-${colorScheme}-${width}`);
    await done(one, opened);
  }
}

async function numbers(one) {
  const opened = await open(one);
  const { page } = opened;
  const { charts } = JSON.parse(await page.textContent("#data")).numbers;
  const loss = charts.find((chart) => chart.name === "train.py:20 in step: float32");
  const norm = charts.find((chart) => chart.name === "train.py:30 in step: float32");
  assert.equal(charts.indexOf(loss), 0, "what a finding is about comes first");
  const broken = loss.lines.find((line) => line.ranks === "1");
  assert.deepEqual([broken.nonfinite, broken.nonfinite_at, broken.v.at(-1), loss.lines.length], [20, 61, "NaN", 3]);
  assert.deepEqual(norm.lines.map((line) => [line.ranks, line.count, line.most, line.most_at]), [["0-2", 5000, 50, 3210]], "equal ranks are one line");
  const drawn = norm.lines[0];
  assert.ok(drawn.v.length <= 600 && drawn.v.length === drawn.n.length, `${drawn.v.length} values`);
  assert.equal(drawn.v[drawn.n.indexOf(3210)], 50, "a spike is kept");
  assert.match(await page.locator(`[data-chart="${norm.name}"]`).textContent(), /of 5,000 values are drawn/);
  // Only the cross and the line at what is not finite are in this colour.
  const red = (name) => page.evaluate((name) => {
    const canvas = document.querySelector(`[data-chart="${name}"] canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - 0xc0) < 8 && Math.abs(data[i + 1] - 0x39) < 8 && Math.abs(data[i + 2] - 0x2b) < 8 && data[i + 3] > 250) ++count;
    return count;
  }, name);
  await page.evaluate(() => { document.documentElement.dataset.theme = "light"; dispatchEvent(new Event("resize")); });
  await page.waitForTimeout(200);
  assert.ok(await red(loss.name) > 100, "NaN is seen");
  assert.equal(await red(norm.name), 0);
  await page.locator("#verdict a.numbers").first().click();
  await page.waitForFunction(() => location.hash.startsWith("#numbers?number="));
  const box = page.locator(`[data-chart="${loss.name}"] .picture`);
  await page.waitForFunction((name) => { const { top, bottom } = document.querySelector(`[data-chart="${name}"]`).getBoundingClientRect(); return top < innerHeight && bottom > 0; }, loss.name);
  await box.focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.textContent("#tip"), /^value 79.*rank 1: NaN/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("value=79") && location.hash.includes("rank=1"));
  const permalink = await page.evaluate(() => location.hash);
  await page.locator("#numbers > details summary").click();
  assert.match(await page.locator("#numbers > details tbody").textContent(), /train\.py:20 in step: float32/);
  await done(one, opened);
  const again = await open(one, { at: permalink });
  assert.equal(await again.page.evaluate(() => location.hash), permalink, "the address brings back what was seen");
  await done(one, again);
}

async function manyNumbers(one) {
  const opened = await open(one);
  const [chart] = JSON.parse(await opened.page.textContent("#data")).numbers.charts;
  assert.equal(chart.lines[0].ranks, "700", "the odd one is first");
  assert.deepEqual([chart.ranks, chart.lines.length, chart.more_ranks], [1024, 32, 992]);
  assert.match(await opened.page.textContent("#numbers"), /992 of 1,024 ranks are left out/);
  await done(one, opened);
}

// However many boxes: none lies on another, all text is inside its box, and lines lead from right to left but for those that close a cycle.
async function graph(one, page) {
  const look = () => page.evaluate(() => {
    const size = ({ x, y, width, height }) => ({ left: x, top: y, right: x + width, bottom: y + height });
    return {
      boxes: [...document.querySelectorAll("#waits .box")].map((box) => ({ culprit: box.classList.contains("culprit"), ...size(box.querySelector("rect").getBBox()), texts: [...box.querySelectorAll("text")].map((text) => size(text.getBBox())) })),
      edges: [...document.querySelectorAll("#waits .edge")].map((edge) => [Number(edge.dataset.from), Number(edge.dataset.to), edge.classList.contains("back")]),
      rings: document.querySelectorAll("#waits .ring").length,
    };
  });
  const right = ({ boxes, edges, rings }) => {
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => assert.ok(a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top, `${one.name}: boxes overlap`)));
    for (const box of boxes) for (const text of box.texts) assert.ok(text.left >= box.left && text.right <= box.right + 1 && text.top >= box.top && text.bottom <= box.bottom, `${one.name}: text leaves its box`);
    if (rings === 0) for (const [from, to, back] of edges) assert.ok(from === to || (back ? boxes[from].right < boxes[to].left : boxes[to].right < boxes[from].left), `${one.name}: who is waited for stands left`);
    return boxes.length;
  };
  if (await page.locator("#waits .graph").count() > 0) {
    const few = right(await look());
    const every = page.locator("#waits input[type=checkbox]");
    if (await every.count() > 0) {
      await every.check();
      const all = right(await look());
      assert.ok(all > few);
      console.log(`${one.name}: ${few} boxes for ${all} states`);
    }
  }
}

async function cycle(one) {
  const opened = await open(one);
  const { page } = opened;
  assert.equal(await page.locator("#waits .ring").count(), 1);
  const edges = await page.evaluate(() => [...document.querySelectorAll("#waits .edge")].map((edge) => `${edge.dataset.from}${edge.dataset.to}`).sort());
  assert.deepEqual(edges, ["01", "12", "20"]);
  await done(one, opened);
}

// The matrix accuses whom the verdict accuses: a rank that skipped a call is ahead of those that wait for it.
async function accused(one) {
  const opened = await open(one);
  const marked = await opened.page.evaluate(() => ["culprit", "less"].map((name) => [...document.querySelectorAll(`table.matrix td.${name}`)].map((cell) => Number(cell.parentElement.cells[0].textContent))));
  assert.deepEqual(marked, [one.culprits, []], one.name);
  await done(one, opened);
}

// All pictures show the call of the headline: it is framed in the lanes, by each rank's own count, and said in words.
async function framed(one, says) {
  const opened = await open(one);
  const { page } = opened;
  const { lanes, texts } = JSON.parse(await page.textContent("#data"));
  const calls = lanes.lanes.map((lane) => [lane.rank, ...lane.bars.filter((bar) => bar[6]).map((bar) => `${texts[bar[4]]} #${bar[3]}`)]).filter((lane) => lane.length > 1);
  assert.deepEqual(calls, says.calls, one.name);
  assert.match(await page.textContent("#moment"), says.words, one.name);
  for (const label of says.labels) assert.ok((await page.evaluate(() => document.querySelector("#moment canvas").dataset.labels)).includes(label), `${one.name}: ${label}`);
  assert.match(await page.textContent("#waits .box.culprit"), says.graph, one.name);
  await done(one, opened);
}

// A culprit that is in the same frames as others is marked there.
async function marked(one) {
  const opened = await open(one);
  assert.ok(await opened.page.locator("#stacks rect.mark").count() > 0, one.name);
  assert.match(await opened.page.textContent("#stacks .icicle"), new RegExp(`culprit: rank ${one.culprits[0]}`), one.name);
  await done(one, opened);
}

// Of whom nothing is heard any more does not move.
async function silent(one) {
  const opened = await open(one);
  const { page } = opened;
  assert.match(await page.textContent("#headline"), /8-15 \(all of host node01\)/);
  assert.match(await page.textContent("#ranks .legend"), /silent: 8 \(ranks 8-15 on node01\)/);
  assert.doesNotMatch(await page.textContent("#ranks .legend"), /moving/);
  assert.match(await page.textContent("#waits"), /silent since \+2\.500 s/);
  assert.match(await page.textContent("#moment .legend"), /nothing was heard of the process any more/);
  await done(one, opened);
}

// What came of a leak stands below it as such, and each size of a request that grows is one of the job's.
async function consequence(one) {
  const opened = await open(one);
  const { page } = opened;
  assert.match(await page.textContent("#headline"), /by more each time, from 32 MiB to 256 MiB/);
  assert.match(await page.textContent("#verdict .note"), /^Consequence, proven: rank 1 ran out of memory/);
  assert.match(await page.textContent("#verdict"), /What came of it.*run\.oom-then-hang/);
  assert.match(await page.textContent("#verdict table.held"), /shares of the device's 4 GiB.*112 MiB3 %free, 208 MiB less than the 320 MiB asked for/);
  await done(one, opened);
}

// Who is framed red in the matrix of arrivals is who the straggler's text names; the bars tell the share of the headline.
async function stragglers(one) {
  const opened = await open(one);
  const { page } = opened;
  const { findings, steps } = JSON.parse(await page.textContent("#data"));
  const named = findings.find((finding) => finding.code === "latency.straggler").culprits;
  const times = new Map();
  for (const column of steps.arrivals.delayed_by) for (const i of column) times.set(steps.arrivals.ranks[i], (times.get(steps.arrivals.ranks[i]) ?? 0) + 1);
  const often = [...times].filter(([, count]) => count >= 3).map(([rank]) => rank).sort((a, b) => a - b);
  assert.deepEqual(often, named, `${one.name}: ${JSON.stringify([...times])}`);
  assert.deepEqual(steps.arrivals.delayed_by[0], [], "what was before the recording is nobody's");
  assert.match(await page.textContent("#ranks .legend"), /was moving: 8/, "a profile does not say that a rank fell silent");
  assert.match(await page.textContent("#steps svg"), /idle 76 %, late launches 71 %/);
  await done(one, opened);
}

// A rank whose memory is on the GPU of another one.
async function shared(one) {
  const opened = await open(one);
  assert.match(await opened.page.textContent("#memory"), /GPU 0 is that of rank 0, too: they share its memory/, one.name);
  assert.match(await opened.page.textContent("#verdict"), /in 40 blocks on GPU 0, which is not its own \(GPU 1\) but that of rank 0/, one.name);
  await done(one, opened);
}

// A call that has not returned has no part in the sums, and is told nevertheless.
async function stillOpen(one) {
  const opened = await open(one);
  assert.match(await opened.page.textContent("#verdict"), /Not returned when the records end: \d+ calls, most of that time in \w+/);
  await done(one, opened);
}

// Where all have entered a collective and one GPU is kept from it, the pictures show by whom.
async function heldUp(one) {
  const opened = await open(one);
  const { lanes, waits } = JSON.parse(await opened.page.textContent("#data"));
  assert.ok(lanes.parted !== null, one.name);
  assert.deepEqual(lanes.lanes.filter((lane) => lane.role === "culprit").map((lane) => lane.rank), one.culprits, one.name);
  assert.deepEqual(waits.nodes.filter((node) => node.culprit).map((node) => node.doing), ["in a host function"], one.name);
  assert.equal(await opened.page.locator("#waits .box").count(), 2, one.name);
  await done(one, opened);
}

// Who is blocked by any finding is not shown as moving.
async function states(one) {
  const opened = await open(one);
  const { findings, ranks, texts } = JSON.parse(await opened.page.textContent("#data"));
  const victims = new Set(findings.filter((finding) => finding.severity !== "info" && !/^(latency|numeric|memory)\./.test(finding.code)).flatMap((finding) => finding.victims));
  assert.deepEqual(ranks.rank.filter((rank, i) => victims.has(rank) && texts[ranks.state[i]] === "moving"), [], one.name);
  await done(one, opened);
}

// A rank that is gone bears the sign of it in all pictures, and one that ended as it should does not.
async function deaths(one, gone) {
  const opened = await open(one);
  const { page } = opened;
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("table.matrix tbody tr")].filter((row) => /gone|dead/.test(row.textContent)).map((row) => Number(row.cells[0].textContent))), gone, one.name);
  assert.equal(await page.locator("#moment .legend", { hasText: "\u2020" }).count(), gone.length > 0 ? 1 : 0, one.name);
  const { lanes } = JSON.parse(await page.textContent("#data"));
  assert.deepEqual(lanes.lanes.filter((lane) => lane.died !== undefined).map((lane) => lane.rank), gone, one.name);
  if (one.crashed) assert.match(await page.textContent("#verdict"), /core dump/, "a fault of its own leaves more than logs");
  await done(one, opened);
}

// Who ended in good order while others wait for it has a mark there, and is not inside its last call.
async function leaves(one) {
  const opened = await open(one);
  const { page } = opened;
  const { lanes, texts } = JSON.parse(await page.textContent("#data"));
  assert.deepEqual(lanes.lanes.filter((lane) => lane.exited !== undefined).map((lane) => lane.rank), one.culprits, one.name);
  await page.waitForFunction(() => document.querySelector("#moment canvas").dataset.frame);
  assert.match(await page.evaluate(() => document.querySelector("#moment canvas").dataset.labels), /train\.py:175.*exited with status 0 at/);
  assert.match(texts[lanes.lanes.find((lane) => lane.exited !== undefined).bars.at(-1)[4]], /^after cudaStreamSynchronize at /);
  assert.match(await page.textContent("#moment .legend"), /exited with status 0/);
  assert.match(await page.textContent("table.matrix"), /culprit, exited/);
  await done(one, opened);
}

// A wait lasts until its rank is gone, also where all have entered the collective.
async function waitsLast(one) {
  const opened = await open(one);
  const { lanes } = JSON.parse(await opened.page.textContent("#data"));
  const short = lanes.lanes.filter((lane) => lane.bars.filter((bar) => ["waits", "instead"].includes(bar[5])).some((bar) => bar[1] !== lane.died)).map((lane) => lane.rank);
  assert.deepEqual(short, [], one.name);
  await done(one, opened);
}

// What was allocated once and never freed is held until the end.
async function held(one) {
  const opened = await open(one);
  const { page } = opened;
  assert.equal(await page.locator("#memory .uplot").count(), 1, one.name);
  assert.doesNotMatch(await page.textContent("#memory"), /No history/, one.name);
  await done(one, opened);
}

async function gaps(one) {
  const opened = await open(one);
  assert.match(await opened.page.textContent("#memory"), /1 GiB of 24 GiB were free on the device, and 10 GiB lay unused in PyTorch's allocator: enough together, but not in one piece/);
  assert.match(await opened.page.textContent("#memory"), /10 GiB in use, in 10 blocks.*the widest gap \S+ GiB, where a block of 4 GiB was wanted/);
  await done(one, opened);
}

// Each of a cycle waits in a communicator of its own.
async function waitsElsewhere(one) {
  const opened = await open(one);
  const cells = await opened.page.evaluate(() => [...document.querySelectorAll("table.matrix tbody tr")].map((row) => [...row.cells].slice(1, 3).map((cell) => cell.className)));
  assert.deepEqual(cells[2], ["culprit", "waiting"], one.name);
  await done(one, opened);
}

async function versions(one) {
  const opened = await open(one);
  assert.match(await opened.page.textContent("#environment dl"), /Host\s*vm.*CUDA driver\s*13\.0.*NCCL\s*2\.\d/s);
  await done(one, opened);
}

// Bars without an axis tell nothing.
async function axes(one) {
  const opened = await open(one);
  const marks = await opened.page.evaluate(() => [...document.querySelectorAll("#steps svg")][0].querySelectorAll("text[text-anchor]").length);
  assert.ok(marks >= 2, `${one.name}: ${marks} marks under the bars`);
  await done(one, opened);
}

// On a telephone each wait says so in words, and no picture is squeezed.
async function narrowLanes(one) {
  const opened = await open(one, { viewport: { width: 390, height: 800 } });
  const { page } = opened;
  await page.waitForFunction(() => document.querySelector("#moment canvas").dataset.frame);
  const { shown, drawn, labels } = await page.evaluate(() => {
    const canvas = document.querySelector("#moment canvas");
    return { shown: canvas.getBoundingClientRect().width, drawn: canvas.width / devicePixelRatio, labels: canvas.dataset.labels.split("|") };
  });
  assert.ok(Math.abs(shown - drawn) < 2, `drawn for ${drawn}, shown in ${shown}`);
  assert.ok(labels.filter((label) => /wait/.test(label)).length >= 3, `${one.name}: ${labels}`);
  await done(one, opened);
}

// Pages of `report` and `diff`: what it says, two bars or more on an axis, and a table; no screen is empty.
async function sheet(one) {
  for (const viewport of [{ width: 1180, height: 900 }, { width: 390, height: 800 }]) {
    const opened = await open(one, { viewport });
    const { page } = opened;
    assert.equal(await page.title(), await page.textContent("#headline"));
    assert.match(await page.textContent("#verdict"), one.says);
    const empty = await page.evaluate(() => [...document.querySelectorAll("main > section")].filter((section) => !section.querySelector("h1, table tbody tr, svg, p")).map((section) => section.id));
    assert.deepEqual(empty, [], one.name);
    if (one.name === "report-unknown") assert.match(await page.textContent("#table"), /No figure is known/, "it says why there is nothing");
    if (one.bars) assert.ok(await page.locator(`${one.bars} svg rect`).count() >= 2, `${one.name}: no bars`);
    assert.ok(await page.locator("table tbody tr").count() > 0, `${one.name}: no rows`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${one.name} fits ${viewport.width}`);
    await labels(one, page);
    await contrast(one, page, "light");
    await screenshot(page, `${one.name}-${viewport.width}`);
    await done(one, opened);
  }
  const opened = await open(one, { javaScriptEnabled: false });
  assert.match(await opened.page.textContent("#plain pre"), one.plain, "without programs the text is there");
  await opened.context.close();
}

async function hostile(one) {
  const opened = await open(one);
  const { page } = opened;
  assert.equal(await page.evaluate(() => document.querySelectorAll("img, script:not([type]) ~ script, b > b, svg[onload]").length), 0);
  assert.match(await page.textContent("#verdict"), /<\/script><script>alert\(2\)/, "names are shown as they are");
  await done(one, opened);
}

const named = (name) => pages.find((one) => one.name === name);
const check = (what, one, ...more) => ({ name: `${what.name} ${one.name}`, run: () => what(one, ...more) });
// What is measured has the machine to itself.
const measured = ["hang", "many"].flatMap((name) => [check(everywhere, named(name)), check(lanes, named(name))]);
const others = [
  ...pages.filter((one) => !["hang", "many"].includes(one.name)).map((one) => check(everywhere, one)),
  ...["hang", "many"].map((name) => check(tables, named(name))),
  check(keyboard, named("hang")),
  check(bare, named("hang")),
  check(grid, named("many")),
  check(cycle, named("p2p_cycle")),
  ...["hang", "skipped", "swapped"].map((name) => check(accused, named(name))),
  check(heldUp, named("blocked-stream")),
  check(states, named("generated-10")),
  check(deaths, named("dead-rank"), [0, 1, 2, 3]),
  check(deaths, named("died"), [2]),
  check(deaths, named("healthy"), []),
  check(leaves, named("early-stop")),
  ...["blocked-stream", "hang"].map((name) => check(waitsLast, named(name))),
  check(held, named("dead-rank")),
  check(gaps, named("fragmentation")),
  check(waitsElsewhere, named("cross-communicator")),
  check(versions, named("hang")),
  ...pages.filter((one) => !one.name.startsWith("generated")).map((one) => check(everyhow, one)),
  check(axes, named("slow")),
  check(narrowLanes, named("died")),
  check(hostile, named("hostile")),
  check(numbers, named("numbers")),
  check(manyNumbers, named("many-numbers")),
  check(framed, named("skipped"), { calls: [0, 1, 2, 3].map((rank) => [rank, "ncclAllReduce #38"]), words: /Framed: #38 of dp.*what rank 2 counts as #38 the others count as #39/, labels: ["#38 ncclAllReduce"], graph: /culprit: inside cudaStreamSynchronize/ }),
  check(framed, named("swapped"), { calls: [0, 1, 2, 3].map((rank) => [rank, `${rank === 2 ? "ncclReduceScatter" : "ncclAllReduce"} #37`]), words: /Framed: #37 of dp.*what the others count as #38 is #37 of rank 2/, labels: [], graph: /called ncclReduceScatter at train\.py:15/ }),
  check(framed, named("cross-communicator"), { calls: [0, 1, 2, 3].map((rank) => [rank, "ncclAllReduce #13"]), words: /Framed: the calls that wait for one another/, labels: ["waits in ncclAllReduce ep #13"], graph: /waits in ncclAllReduce ep #13/ }),
  check(shared, named("leak")),
  check(framed, named("p2p_wrong_peer"), { calls: [[2, "ncclSend to rank 0 #1"], [3, "ncclRecv from rank 2 #6"]], words: /Framed: the messages/, labels: ["#1 ncclSend to rank 0", "waits in ncclRecv from rank 2"], graph: /called ncclSend at ring\.py:5/ }),
  ...["skipped", "swapped"].map((name) => check(marked, named(name))),
  check(silent, named("silent-host")),
  check(consequence, named("memory")),
  ...pages.filter((one) => one.name === "real-profile").map((one) => check(stragglers, one)),
  check(stillOpen, sheets.find((one) => one.name === "report-call")),
  ...sheets.map((one) => check(sheet, { ...one, says: new RegExp(one.says), plain: new RegExp(one.plain) })),
];

async function all(checks, abreast) {
  const rest = checks.values();
  await Promise.all(Array.from({ length: abreast }, async () => {
    for (const one of rest) {
      const began = performance.now();
      await one.run();
      one.took = (performance.now() - began) / 1000;
    }
  }));
}

try {
  await all(measured, 1);
  await all(others, Math.min(4, availableParallelism()));
  const slowest = [...measured, ...others].sort((a, b) => b.took - a.took).slice(0, 5);
  console.log(`slowest: ${slowest.map((one) => `${one.name} ${one.took.toFixed(1)} s`).join(", ")}`);
  console.log(`${pages.length + sheets.length} pages are right`);
} finally {
  await browser.close();
}

// Builds ../built/page.html: one file with style and program in it, and three places that traintrace fills in.
// The policy allows what is in it by its hash, and nothing else: no network, no code that a trace might smuggle in.
//   node build.mjs [OUTPUT]
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, "../built/page.html");
const bundle = await build({
  entryPoints: [join(here, "src/main.ts")], bundle: true, minify: true, format: "iife", target: "es2022", write: false,
  legalComments: "none", charset: "ascii",
});
const styles = await build({
  stdin: { contents: readFileSync(join(here, "node_modules/uplot/dist/uPlot.min.css"), "utf8") + readFileSync(join(here, "src/style.css"), "utf8"), loader: "css" },
  minify: true, write: false, charset: "ascii", target: "es2022",
});
const program = bundle.outputFiles[0].text.replaceAll("</script", "<\\/script").trim();
const style = styles.outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = `default-src 'none'; script-src ${hash(program)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'; ` +
  "require-trusted-types-for 'script'; trusted-types 'none'";
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<title><!--traintrace:title--></title>
<style>${style}</style></head>
<body><div id="plain"><!--traintrace:plain--></div>
<script type="application/json" id="data"><!--traintrace:data--></script>
<script>${program}</script></body></html>
`);

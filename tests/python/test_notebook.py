"""test_notebook.py BUILD: what a notebook shows, laid out by Chromium in an output cell as Jupyter has it.  77: there is no Chromium."""
import html
import json
import os
import re
import shutil
import subprocess
import sys

import case
import traintrace

BROWSER = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
# Notebooks put HTML into an element of the page after it was loaded, so that scripts in it do not run.
PAGE = """<!doctype html><meta charset="utf-8"><body><div class="output"></div><pre id="seen"></pre><script>
const output = document.querySelector(".output");
output.innerHTML = {html};
const seen = {{rows: output.querySelectorAll("tbody tr, tr").length, heads: output.querySelectorAll("th").length}};
const details = output.querySelector("details");
if (details) {{
  seen.closed = details.querySelector("li").checkVisibility();
  details.querySelector("summary").click();
  seen.open = details.querySelector("li").checkVisibility();
  seen.last = details.querySelector("li:last-child").textContent;
}}
seen.text = output.innerText;
seen.alerted = window.alerted === true;
seen.wide = output.scrollWidth > 4000;
document.getElementById("seen").textContent = JSON.stringify(seen);
</script>"""


class Notebook(case.Case):
    def shown(self, value):
        """What is to be seen of it."""
        markup = value._repr_html_()  # pylint: disable=protected-access
        path = os.path.join(self.folder, "cell.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PAGE.format(html=json.dumps(markup).replace("</", "<\\/")))
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile", "--virtual-time-budget=5000",
                               "--dump-dom", f"file://{path}"], capture_output=True, text=True, timeout=120, check=False)
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
        self.assertIsNotNone(found, done.stderr[-1000:])
        return json.loads(html.unescape(found[1]))

    def test_of_a_job_that_hangs(self):
        self.run_job(3, "107")
        result = traintrace.analyze(self.traces, hang_after="0.5s")
        seen = self.shown(result)
        self.assertIn("verdict: " + result.verdict, seen["text"])
        self.assertIn("collective.early-exit", seen["text"])
        self.assertEqual((seen["closed"], seen["open"]), (False, True), "the evidence unfolds")
        self.assertEqual(seen["last"], result.findings[0].advice and f"advice: {result.findings[0].advice}")
        self.assertEqual(seen["rows"], 1 + len(result.findings))
        self.assertFalse(seen["wide"])
        table = result.report(by="range")
        seen = self.shown(table)
        self.assertEqual((seen["rows"], seen["heads"]), (1 + len(table), len(table.columns)))
        self.assertIn("evaluate", seen["text"])

    def test_what_a_job_calls_itself_is_text(self):
        odd = traintrace.Finding(code="a<b", severity="error", certainty="proof", title="<img src=x onerror='window.alerted=true'>", evidence=["<b>a & b</b>"])
        seen = self.shown(traintrace.Analysis("<i>", [odd], None, [], {}, []))
        self.assertFalse(seen["alerted"])
        self.assertIn("<img src=x onerror='window.alerted=true'>", seen["text"])
        self.assertEqual(seen["last"], "<b>a & b</b>")


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no Chromium (Debian: chromium)")
        sys.exit(77)
    case.main()

"""Whether analyzer/page/built/page.html is what its sources give, which are right as TypeScript.   built.py WEB   77: no node, or no `npm ci`"""
import os
import shutil
import subprocess
import sys
import tempfile

web = sys.argv[1]
if not shutil.which("node") or not os.path.isdir(os.path.join(web, "node_modules/esbuild")):
    print("not installed: node, or the packages (npm ci in analyzer/page/web)")
    sys.exit(77)
subprocess.run(["node", os.path.join(web, "node_modules/typescript/bin/tsc"), "--noEmit", "-p", web], check=True)
with tempfile.TemporaryDirectory() as folder:
    output = os.path.join(folder, "page.html")
    subprocess.run(["node", os.path.join(web, "build.mjs"), output], check=True)
    with open(output, "rb") as new, open(os.path.join(web, "../built/page.html"), "rb") as built:
        assert new.read() == built.read(), "analyzer/page/built/page.html is old: node analyzer/page/web/build.mjs"

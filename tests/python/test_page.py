"""test_page.py BUILD: what docs/python.md shows is so: its programs are run, its commands print what stands below them."""
import os
import re
import subprocess

import case

PROJECT = os.path.join(case.HERE, "..", "..")


def blocks(page, language):
    return re.findall(rf"^```{language}(?: (\S+))?\n(.*?)^```$", page, re.M | re.S)


def cuda_include():
    with open(os.path.join(case.BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        return re.search(r"^TT_CUDA_INCLUDE:\w+=(.*)$", cache.read(), re.M)[1]


class Page(case.Case):
    def test_what_it_shows(self):
        with open(os.path.join(PROJECT, "docs", "python.md"), encoding="utf-8") as file:
            page = file.read()
        for name, text in blocks(page, "python") + blocks(page, "c"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        simgpu = f"{case.BUILD}/simgpu"
        subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-std=c99", "program.c", "-o", "program", "-isystem", cuda_include(), f"-I{PROJECT}/include",
                        f"{simgpu}/libcudart.so.13", "-ldl", f"-Wl,-rpath,{simgpu}"], cwd=self.folder, check=True)
        shown = 0
        for _, block in blocks(page, "console"):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, printed = part.partition("\n")
                done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment(recorded=False), capture_output=True, text=True,
                                      check=False)
                self.assertEqual(done.stdout, printed, f"{command}\n{done.stderr}")
                shown += 1
        self.assertEqual(shown, 6)


if __name__ == "__main__":
    case.main()

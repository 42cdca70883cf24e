"""test_pages.py BUILD: what docs/clusters says to write is well-formed, and the commands, options and settings in it exist."""
import glob
import os
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    yaml = None

TRAINTRACE = os.path.join(os.path.abspath(sys.argv[1]), "bin", "traintrace")
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "clusters", "*.md")


def help_of(*words):
    return subprocess.run([TRAINTRACE, *words], capture_output=True, text=True, timeout=30, check=True).stdout


def text_of(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """Of code: lines that are indented by four blanks."""
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)
    return ["\n".join(line[4:] for line in block.split("\n")) for block in found if block.strip()]


class Pages(unittest.TestCase):
    def test_settings(self):
        known = set(re.findall(r"TRAINTRACE_\w+", help_of("settings")))
        for page in glob.glob(PAGES):
            used = set(re.findall(r"TRAINTRACE_[A-Z_]+", text_of(page)))
            self.assertLessEqual(used, known, page)

    def test_commands_and_their_options(self):
        commands = set(re.findall(r"^  (\w+) ", help_of("help"), re.MULTILINE))
        self.assertIn("collect", commands)
        for page in glob.glob(PAGES):
            joined = text_of(page).replace("\\\n", " ")
            shown = "\n".join([*blocks(joined), *re.findall(r"`([^`]+)`", joined)])
            for command, rest in re.findall(r"(?:^|[ /])traintrace ([a-z]+)( [^\n`\"]*)?", shown, re.MULTILINE):
                with self.subTest(page=os.path.basename(page), command=command):
                    self.assertIn(command, commands)
                    own = rest.split(" -- ")[0].split("#")[0].split(" | ")[0].split(";")[0] if rest else ""
                    known = help_of("help", command)
                    for option in re.findall(r" (--[a-z-]+)", own):
                        self.assertIn(option, known)

    @unittest.skipIf(yaml is None, "no python3-yaml here")
    def test_yaml(self):
        found = [block for block in blocks(text_of(PAGES.replace("*", "kubernetes"))) if re.search(r"^\s*(- name|spec):", block, re.MULTILINE)]
        self.assertEqual(len(found), 2)
        for block in found:
            parsed = yaml.safe_load(block)
            for container in parsed["spec"]["containers"] if isinstance(parsed, dict) else parsed:
                names = []
                for variable in container.get("env", []):
                    # Kubernetes leaves $(NAME) as it is unless NAME comes before.
                    self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", variable.get("value", ""))), set(names))
                    names.append(variable["name"])
                mounted = {mount["name"] for mount in container["volumeMounts"]}
                if isinstance(parsed, dict):
                    self.assertLessEqual(mounted, {volume["name"] for volume in parsed["spec"]["volumes"]})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

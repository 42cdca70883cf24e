"""test_install.py BUILD: what `cmake --install` and cpack make can be moved, and works from where it is."""
import os
import shutil
import subprocess
import sys

import job

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "lib")


def cmake(*arguments):
    return subprocess.run(["cmake", *arguments], capture_output=True, text=True, timeout=300, check=True)


class Install(job.Case):
    def install(self, *components):
        for component in components:
            cmake("--install", job.BUILD, "--component", component, "--strip", "--prefix", f"{self.folder}/first")
        os.rename(f"{self.folder}/first", f"{self.folder}/moved")
        return f"{self.folder}/moved"

    def record_with(self, program):
        settings = {"LD_LIBRARY_PATH": f"{job.BUILD}/simgpu", "HOME": "/", "PATH": "/usr/bin:/bin"}
        done = subprocess.run([program, "run", "--", *job.JOB], cwd=self.folder, env=settings, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("recorded 1 process in traintrace", done.stderr)
        done = subprocess.run([program, "analyze"], cwd=self.folder, env={"PATH": "/usr/bin"}, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing is wrong", done.stdout)

    def check_package(self, python, settings):
        """Of Python; the folder has traces, whose own name is that of the package."""
        code = "import traintrace; traintrace.step(1); print(traintrace.analyze('traintrace').verdict)"
        done = subprocess.run([*python, "-c", code], cwd=self.folder, env=settings, capture_output=True, text=True, timeout=120, check=False)
        self.assertIn("nothing is wrong", done.stdout, done.stderr)

    def test_a_folder_that_is_moved(self):
        folder = self.install("runtime")
        self.assertEqual(sorted(os.listdir(folder)), ["bin", "include", "lib", "share"])
        self.assertEqual(sorted(os.listdir(f"{folder}/lib")), ["libtraintrace.so", "python3"])
        self.assertEqual(os.listdir(f"{folder}/include"), ["traintrace.h"])
        for name in ("man/man1/traintrace.1", "bash-completion/completions/traintrace", "zsh/site-functions/_traintrace",
                     "fish/vendor_completions.d/traintrace.fish"):
            self.assertGreater(os.path.getsize(f"{folder}/share/{name}"), 1000, name)
        self.record_with(f"{folder}/bin/traintrace")
        self.check_package([sys.executable], {"PYTHONPATH": f"{folder}/lib/python3/dist-packages", "PYTHONDONTWRITEBYTECODE": "1"})
        print(f"\nstripped: traintrace {os.path.getsize(f'{folder}/bin/traintrace'):,} bytes, "
              f"libtraintrace.so {os.path.getsize(f'{folder}/lib/libtraintrace.so'):,}")
        self.assertLess(os.path.getsize(f"{folder}/lib/libtraintrace.so"), 2_000_000)
        self.assertLess(os.path.getsize(f"{folder}/bin/traintrace"), 8_000_000)

    def test_the_shells_understand_their_completions(self):
        """Those that are installed here."""
        done = subprocess.run(["bash", "-n", f"{job.BUILD}/analyzer/traintrace.bash"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for shell, name in (("zsh", "zsh"), ("fish", "fish")):
            if shutil.which(shell) is not None:
                done = subprocess.run([shell, "-n", f"{job.BUILD}/analyzer/traintrace.{name}"], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_with_the_libraries_that_it_was_linked_to(self):
        folder = self.install("runtime", "libraries")
        program = f"{folder}/bin/traintrace"
        found = subprocess.run(["ldd", program], env={}, capture_output=True, text=True, check=True).stdout
        outside = [line.split()[0] for line in found.splitlines() if "=>" in line and f"{folder}/" not in os.path.realpath(line.split()[2])]
        self.assertLessEqual({name.split(".")[0] for name in outside}, {"libc", "libm", "libdl", "librt", "libpthread"}, found)
        self.record_with(program)

    def test_a_folder_that_needs_no_library_of_the_machine(self):
        """As the .tar.gz and the wheel have it."""
        folder = f"{self.folder}/portable"
        subprocess.run([f"{SCRIPTS}/portable", job.BUILD, folder], check=True, timeout=300)
        os.symlink(f"{folder}/bin/traintrace", f"{self.folder}/link")
        self.record_with(f"{self.folder}/link")
        own = os.listdir(f"{folder}/lib/traintrace")
        self.assertTrue({"traintrace", "libc.so.6", "libm.so.6", "libstdc++.so.6"} <= set(own), own)
        loader = next(name for name in own if name.startswith("ld-linux-"))
        found = subprocess.run([f"{folder}/lib/traintrace/{loader}", "--library-path", f"{folder}/lib/traintrace", "--list",
                                f"{folder}/lib/traintrace/traintrace"], capture_output=True, text=True, check=True).stdout
        for line in found.splitlines():
            self.assertTrue("=>" not in line or f"=> {folder}/" in line, line)
        self.check_wheel(folder)

    def check_wheel(self, folder):
        made = subprocess.run([sys.executable, f"{SCRIPTS}/wheel.py", folder, "0.1.0", self.folder], capture_output=True, text=True,
                              check=True).stdout.strip()
        self.assertRegex(os.path.basename(made), r"^traintrace-0\.1\.0-py3-none-manylinux_2_28_\w+\.whl$")
        if subprocess.run([sys.executable, "-m", "venv", f"{self.folder}/venv"], capture_output=True, check=False).returncode != 0:
            print("SKIPPED: no venv with pip here (Debian's python3-venv)")
            return
        subprocess.run([f"{self.folder}/venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", made],
                       check=True, timeout=300)
        self.record_with(f"{self.folder}/venv/bin/traintrace")
        self.check_package([f"{self.folder}/venv/bin/python"], {})
        self.assertEqual(subprocess.run([f"{self.folder}/venv/bin/traintrace", "--version"], capture_output=True, text=True, env={},
                                        check=True).stdout, "traintrace 0.1.0\n")
        subprocess.run([f"{self.folder}/venv/bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "traintrace"], check=True, timeout=300)
        self.assertFalse(os.path.exists(f"{self.folder}/venv/lib/libtraintrace.so"))

    def test_debug_files_by_build_id(self):
        folder = self.install("debug")
        found = self.files("moved/lib/debug/.build-id/*/*.debug")
        self.assertEqual(len(found), 2, folder)

    def test_the_package_of_debian(self):
        if shutil.which("dpkg-deb") is None or shutil.which("dpkg-shlibdeps") is None:
            self.skipTest("no dpkg-dev here")
        subprocess.run(["cpack", "-G", "DEB", "--config", f"{job.BUILD}/CPackConfig.cmake", "-B", f"{self.folder}/deb"],
                       capture_output=True, text=True, timeout=300, check=True)
        package = self.files("deb/*.deb")[0]
        listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
        for name in ("./usr/bin/traintrace", "./usr/include/traintrace.h", "./usr/lib/python3/dist-packages/traintrace/__init__.py", "./usr/lib/libtraintrace.so", "./usr/share/man/man1/traintrace.1"):
            self.assertIn(f" {name}\n", listed)
        depends = subprocess.run(["dpkg-deb", "--field", package, "Depends"], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc6", depends)
        subprocess.run(["dpkg-deb", "--extract", package, f"{self.folder}/root"], check=True)
        self.record_with(f"{self.folder}/root/usr/bin/traintrace")


if __name__ == "__main__":
    job.main()

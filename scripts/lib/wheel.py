"""wheel.py FOLDER VERSION OUT: a wheel of what scripts/lib/portable has made; prints its path.

It is installed into a virtual environment as bin/traintrace, lib/libtraintrace.so and lib/traintrace/, and the package of Python where
packages are.  No licence is decided, and
the wheel names none.
"""
import base64
import hashlib
import os
import platform
import sys
import zipfile

PACKAGES = "lib/python3/dist-packages/"
GLIBC = "2_28"  # that libtraintrace.so needs; tests/preload/symbols.py checks it


def files_of(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            yield os.path.relpath(path, folder), path


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)  # pylint: disable=consider-using-with
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes from the same files
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record):
        self.zip.writestr(record, "".join(line + "\n" for line in [*self.record, f"{record},,"]))
        self.zip.close()


def main():
    folder, version, out = sys.argv[1:]
    tag = f"py3-none-manylinux_{GLIBC}_{platform.machine()}"
    name = f"traintrace-{version}"
    path = os.path.join(out, f"{name}-{tag}.whl")
    wheel = Wheel(path)
    for relative, source in sorted(files_of(folder)):
        with open(source, "rb") as file:
            data = file.read()
        if relative.startswith(PACKAGES):
            wheel.add(relative[len(PACKAGES):], data)
            continue
        place = f"scripts/{relative[4:]}" if relative.startswith("bin/") else f"data/{relative}"
        wheel.add(f"{name}.data/{place}", data, 0o755 if os.access(source, os.X_OK) else 0o644)
    wheel.add(f"{name}.dist-info/METADATA", (f"Metadata-Version: 2.1\nName: traintrace\nVersion: {version}\n"
              "Summary: why a training job hangs, runs out of memory or runs slow\nRequires-Python: >=3.8\n").encode())
    wheel.add(f"{name}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: traintrace\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close(f"{name}.dist-info/RECORD")
    print(path)


main()

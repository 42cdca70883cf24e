"""What libtraintrace.so exports, needs and contains: nothing but what the tables say.

  symbols.py LIBRARY PROJECT BUILD"""
import re
import subprocess
import sys
from pathlib import Path

library, project = Path(sys.argv[1]), Path(sys.argv[2])
# The oldest glibc that it must load on.
NEWEST_GLIBC = (2, 28)  # of RHEL 8
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rows(table):
    """The names that a table exports, expanded as format/schema.h does."""
    names = []
    for line in (project / table).read_text().splitlines():
        row = re.match(r"(TT_\w+)\(([^()]*)", line)
        if not row:
            continue
        words = [word.strip() for word in row[2].split(",")]
        name = words[1] if row[1] == "TT_EXPORT" else words[2]
        names.append(name)
        if words[0] == "Nccl" and row[1] == "TT_CALL":
            names.append("p" + name)  # NCCL's second name for it
        suffix = {"TT_CALL_PTSZ": "_ptsz", "TT_CALL_PTDS": "_ptds"}.get(row[1])
        if suffix:
            names.append(name + suffix)
    return names


def exports_equal_the_tables():
    listed = rows("format/calls.def") + rows("interpose/calls/exports.def")
    check(len(listed) > 400, f"only {len(listed)} rows were understood")
    check(len(listed) == len(set(listed)), "a name is listed twice")
    exported = [line.split() for line in output("nm", "-D", "--defined-only", library).splitlines()]
    names = {words[2] for words in exported}
    check(names == set(listed), f"exported but not listed: {names - set(listed)}, "
                                f"listed but not exported: {set(listed) - names}")
    data = {words[2] for words in exported if words[1] != "T"}
    check(data == {"ncclProfiler_v5"}, f"something else than functions is exported: {data}")


def versions():
    # A named version of our own would silently disable every hook of a versioned library.
    check("Version definition" not in output("readelf", "-VW", library), "it defines symbol versions")
    for version in set(re.findall(r"GLIBC_(2\.\d+)", output("readelf", "-VW", library))):
        check(tuple(map(int, version.split("."))) <= NEWEST_GLIBC, f"it needs glibc {version}")


def dependencies():
    dynamic = output("readelf", "-dW", library)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    # The middle two are part of libc.so.6 from glibc 2.34 on, which has files of these names all the same.
    allowed = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    check(needed <= allowed, f"it needs {needed - allowed}")
    check("NODELETE" in dynamic, "it can be unloaded")
    check("TEXTREL" not in dynamic, "its code is relocated")


def constructors():
    # Other libraries' constructors run before ours and may call what we export.
    local = output("nm", library)
    check("_GLOBAL__sub_I" not in local and "__static_initialization" not in local, "something is initialised at run time")


def thread_local_storage():
    sizes = re.findall(r"^\s*TLS\s+\S+ \S+ \S+ \S+ (\S+)", output("readelf", "-lW", library), re.M)
    check(sum(int(size, 16) for size in sizes) < 1024, f"thread-local storage: {sizes}")
    check("__tls_get_addr" not in output("nm", "-D", library), "its thread-local storage may allocate")


def addresses():
    # Each program of the job has them, and may lock all its memory where no more than 8 MiB may be locked.
    sizes = re.findall(r"^\s*LOAD\s+\S+ \S+ \S+ \S+ (\S+)", output("readelf", "-lW", library), re.M)
    megabytes = sum(int(size, 16) for size in sizes) / (1 << 20)
    check(megabytes < 5, f"it takes {megabytes:.1f} MiB before anything is recorded")


def sources():
    for source in sorted((project / "interpose").rglob("*.*")):
        if source.suffix not in (".cc", ".h"):
            continue
        text = re.sub(r"//.*", "", source.read_text())
        # The real one is asked through a pointer: our own would call itself.
        check(not re.search(r"(?<![\w.])(dlsym|dlvsym)\s*\(", text), f"{source.name} calls dlsym")
        check(not re.search(r"(?<![\w.])(posix_fallocate|abort|exit)\s*\(", text),
              f"{source.name} calls what the job would feel")


for test in (exports_equal_the_tables, versions, dependencies, constructors, thread_local_storage, addresses, sources):
    test()
print("\n".join(failures) or "ok")
sys.exit(1 if failures else 0)

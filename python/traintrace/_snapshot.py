"""The trace of this process as it is now."""
import os
import re
import subprocess
import time

PATIENCE_S = 30
# A machine with too much other work makes a process's trace after its first call of CUDA has returned.
PATIENCE_FOR_TRACE_S = 2


def own_trace(folder):
    """HOST.PID.STARTTIME.trace, or .pointer where it is elsewhere.  The host may have had others with this PID, which began before."""
    until = time.monotonic() + PATIENCE_FOR_TRACE_S
    while True:
        entries = os.listdir(folder) if os.path.isdir(folder) else []
        names = list(filter(None, (re.fullmatch(rf".*\.{os.getpid()}\.(\d+)\.(?:trace|pointer)", entry) for entry in entries)))
        if names or time.monotonic() > until:
            return max(names, key=lambda name: int(name[1]))[0]
        time.sleep(0.02)


def packed(folder, to):
    """The folder with the packed trace; raises where there is none."""
    from traintrace import _analysis  # pylint: disable=import-outside-toplevel
    to = os.path.abspath(to)
    os.makedirs(to, mode=0o700, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([_analysis.program(), "collect", os.path.join(folder, own_trace(folder)), f"--to={to}"], env=environment, timeout=PATIENCE_S,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return to

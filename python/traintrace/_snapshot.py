"""The trace of this process as it is now."""
import os
import re
import subprocess

PATIENCE_S = 30


def own_trace(folder):
    """HOST.PID.STARTTIME.trace, or .pointer where it is elsewhere.  The host may have had others with this PID, which began before."""
    names = [re.fullmatch(rf".*\.{os.getpid()}\.(\d+)\.(?:trace|pointer)", name) for name in os.listdir(folder)]
    return max(filter(None, names), key=lambda name: int(name[1]))[0]


def packed(folder, to):
    """The folder with the packed trace; raises where there is none."""
    from traintrace import _analysis  # pylint: disable=import-outside-toplevel
    to = os.path.abspath(to)
    os.makedirs(to, mode=0o700, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([_analysis.program(), "collect", os.path.join(folder, own_trace(folder)), f"--to={to}"], env=environment, timeout=PATIENCE_S,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return to

"""kernel.py: cells of a notebook, run by a kernel of IPython, which is restarted in between.  77: there is none."""
import sys

try:
    import ipykernel  # pylint: disable=unused-import
    from jupyter_client.manager import start_new_kernel
except ImportError:
    sys.exit(77)

IMPORTS = """
import sys
sys.path[:0] = {path!r}
import nccl, traintrace
from ctypes import byref, c_size_t, c_void_p
memory = c_void_p()
nccl.cudaMalloc(byref(memory), 1 << 16)
"""
STEP = """
traintrace.step({number})
with traintrace.range("cell"):
    nccl.cudart.cudaMemset(memory, 0, c_size_t(1 << 16))
"""


def run(client, code):
    reply = client.execute_interactive(code, timeout=60)
    assert reply["content"]["status"] == "ok", reply


def main():
    kernel, client = start_new_kernel(kernel_name="python3")
    for _ in range(2):
        run(client, IMPORTS.format(path=sys.argv[2:]))
        for number in range(3):
            run(client, STEP.format(number=number))
        kernel.restart_kernel()
        client.wait_for_ready(timeout=60)
    client.stop_channels()
    kernel.shutdown_kernel()


if __name__ == "__main__":
    main()

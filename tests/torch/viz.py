"""What PyTorch's own functions for snapshots make of ours: torch/cuda/_memory_viz.py, those that download nothing.   viz.py SNAPSHOT .."""
import pickle
import sys

from torch.cuda import _memory_viz as viz

for path in sys.argv[1:]:
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    texts = [viz.segsum(snapshot), viz.trace(snapshot), viz.segments(snapshot, format_flamegraph=str), viz.memory(snapshot, format_flamegraph=str),
             viz.compare(snapshot["segments"], snapshot["segments"], format_flamegraph=str), viz.trace_plot(snapshot), viz.segment_plot(snapshot)]
    print(f"rank 0: {path.split('/')[-1]} {len(snapshot['segments'])} segments,", *(len(text) for text in texts), flush=True)

"""Where in its work a training job is, told to traintrace, and what traintrace finds in what it recorded.

In the job; each of these does nothing unless it runs under `traintrace run` or with libtraintrace.so in LD_PRELOAD:

    for number, batch in enumerate(loader):
        traintrace.step(number)
        traintrace.note("samples", batch.ids)
        with traintrace.range("forward"):
            ...

Afterwards, in a notebook or a script:

    result = traintrace.analyze("traintrace")
    print(result.verdict)
"""
from traintrace._markers import is_recorded, mark, note, range, snapshot, step  # pylint: disable=redefined-builtin

__all__ = ["Analysis", "Communicator", "Error", "Finding", "Loss", "Place", "Run", "Table", "analyze", "is_recorded", "mark", "note", "range",
           "report", "snapshot", "step"]


def __getattr__(name):
    """What analyses is loaded when it is first used: a job needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'traintrace' has no attribute '{name}'")
    from traintrace import _analysis  # pylint: disable=import-outside-toplevel
    return getattr(_analysis, name)

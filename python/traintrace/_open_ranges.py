"""What the markers of the frameworks share."""
from traintrace._markers import range  # pylint: disable=redefined-builtin


class OpenRange:
    """The part of the work that a framework is in: one at a time, on the thread that trains."""

    def __init__(self):
        self.name = self.range = None

    def enter(self, name):
        """This part begins, and the one before it ends; None: none does."""
        if name == self.name:
            return
        if self.range is not None:
            self.range.__exit__(None, None, None)
        self.name = name
        self.range = None if name is None else range(name).__enter__()

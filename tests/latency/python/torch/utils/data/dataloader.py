"""As much of PyTorch's loader as a tracer sees of it: where the file lies, and what its frames are called."""


class _SingleProcessDataLoaderIter:
    def __init__(self, dataset):
        self.dataset = dataset
        self.index = 0

    def __next__(self):
        self.index += 1
        return self._fetch()

    def _fetch(self):
        return self.dataset[self.index]

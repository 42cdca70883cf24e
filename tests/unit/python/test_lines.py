"""Every instruction of a good part of the standard library has the line that it should have."""

import dis
import glob
import os
import sys
import sysconfig
import types

from probe import CUT, LIB


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def lines_of(code):
    """(first instruction, line) of each stretch, as the interpreter says."""
    if CUT >= (3, 10):
        return [(begin, end, line) for begin, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [start for start, _ in starts[1:]] + [len(code.co_code)]
    return [(start, end, line) for (start, line), end in zip(starts, ends)]


def check(code):
    table = code.co_linetable if CUT >= (3, 10) else code.co_lnotab
    stretches = lines_of(code)
    for begin, end, line in stretches:
        # Only stretches of no bytes may share a place; the last one counts.
        for instruction in {begin, end - 2} if end > begin else ():
            got = LIB.probe_line(CUT[1], code.co_firstlineno, table, len(table), instruction)
            assert got == (-1 if line is None else line), (code, instruction, got, line)
    return len(stretches)


def main():
    count = 0
    library = sysconfig.get_path("stdlib")
    for path in sorted(glob.glob(os.path.join(library, "*.py"))):
        with open(path, encoding="utf-8") as file:
            for code in codes_in(compile(file.read(), path, "exec", dont_inherit=True)):
                count += check(code)
    print(count, "stretches of code")
    assert count > 50000


main()

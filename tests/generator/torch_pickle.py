"""Pickle, protocol 2, as torch::jit::Pickler writes it: containers of containers, strings by memo, integers of 8 bytes as LONG1.

Python's own pickler gives the same values with other opcodes (APPEND, SETITEM for single elements). Blocks that occur again and again are kept.
"""
import struct

NONE, TRUE, FALSE = b"N", b"\x88", b"\x89"


class Pickler:
    def __init__(self):
        self.memo, self.blocks = {}, {}

    def text(self, value):
        known = self.memo.get(value)
        if known is None:
            index = len(self.memo)
            data = value.encode()
            head = b"X" + struct.pack("<I", len(data)) + data
            if index < 256:
                self.memo[value] = b"h" + bytes([index])
                return head + b"q" + bytes([index])
            self.memo[value] = b"j" + struct.pack("<I", index)
            return head + b"r" + struct.pack("<I", index)
        return known

    @staticmethod
    def integer(value):
        if 0 <= value < 256:
            return b"K" + bytes([value])
        if 0 <= value < 65536:
            return b"M" + struct.pack("<H", value)
        if -2147483648 <= value < 2147483648:
            return b"J" + struct.pack("<i", value)
        return b"\x8a\x08" + struct.pack("<q", value)

    def value(self, value):
        if value is None:
            return NONE
        kind = type(value)
        if kind is bool:
            return TRUE if value else FALSE
        if kind is int:
            return self.integer(value)
        if kind is str:
            return self.text(value)
        if kind is float:
            return b"G" + struct.pack(">d", value)
        if kind is tuple:
            return b"".join(map(self.value, value)) + b"\x86"
        if kind is list:
            return b"](" + b"".join(map(self.value, value)) + b"e"
        return b"}(" + b"".join(self.text(key) + self.value(each) for key, each in value.items()) + b"u"

    def block(self, key, fields):
        """`fields()` (pairs of a dict) as bytes. Kept from the second time on, when it makes no new memo entries."""
        known = self.blocks.get(key)
        if known is None:
            before = len(self.memo)
            known = b"".join(self.text(name) + self.value(each) for name, each in fields())
            if len(self.memo) == before:
                self.blocks[key] = known
        return known

    def document(self, fields):
        """`fields`: (name, value or bytes that are encoded already)."""
        body = []
        for name, each in fields:
            body.append(self.text(name))
            body.append(each() if callable(each) else self.value(each))
        return b"\x80\x02}(" + b"".join(body) + b"u."

"""A file system that answers so many requests and then none, as that of a server that is gone.

  hanging.py MOUNT_POINT TYPE REQUESTS [closes]      mounts, says "mounted", serves until it is killed; -1: answers all;
                                                     closes: once a file was closed, no close asks any more

While there is a file "fails" in it, no file can be read.  A tree in memory, by the kernel's FUSE protocol (linux/fuse.h)."""
import ctypes
import errno
import os
import stat
import struct
import sys
import time

ATTRIBUTES = struct.Struct("<6Q10I")
HEADER = struct.Struct("<IIQQIIII")
(LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR,
 RELEASEDIR, FSYNCDIR, ACCESS, CREATE, INTERRUPT, BATCH_FORGET, RENAME2) = (
     1, 2, 3, 4, 9, 10, 11, 12, 14, 15, 16, 17, 18, 20, 25, 26, 27, 28, 29, 30, 34, 35, 36, 42, 45)
FATTR_MODE, FATTR_SIZE = 1, 8
BIG_WRITES = 1 << 5
FAILS = b"fails"


class Node:
    def __init__(self, mode):
        self.mode = mode
        self.names = {}  # of a folder
        self.data = bytearray()


class Tree:
    def __init__(self):
        self.nodes = [None, Node(stat.S_IFDIR | 0o755)]

    def attributes(self, number):
        node = self.nodes[number]
        return ATTRIBUTES.pack(number, len(node.data), len(node.data) // 512, 0, 0, 0, 0, 0, 0, node.mode, 1, 0, 0, 0, 4096, 0)

    def entry(self, number):
        return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + self.attributes(number)

    def lookup(self, parent, body):
        return self.entry(self.nodes[parent].names[name_in(body)])

    def getattr(self, number, _):
        return struct.pack("<QII", 0, 0, 0) + self.attributes(number)

    def setattr(self, number, body):
        node = self.nodes[number]
        valid, size = struct.unpack_from("<I", body)[0], struct.unpack_from("<Q", body, 16)[0]
        if valid & FATTR_SIZE:
            node.data = node.data[:size].ljust(size, b"\0")
        if valid & FATTR_MODE:
            node.mode = stat.S_IFMT(node.mode) | struct.unpack_from("<I", body, 68)[0] & 0o7777
        return self.getattr(number, body)

    def make(self, parent, name, mode):
        if name in self.nodes[parent].names:
            raise OSError(errno.EEXIST, "")
        self.nodes.append(Node(mode))
        self.nodes[parent].names[name] = len(self.nodes) - 1
        return self.entry(len(self.nodes) - 1)

    def mkdir(self, parent, body):
        return self.make(parent, name_in(body[8:]), stat.S_IFDIR | struct.unpack_from("<I", body)[0] & 0o7777)

    def create(self, parent, body):
        return self.make(parent, name_in(body[16:]), struct.unpack_from("<I", body, 4)[0]) + self.open(0, b"")

    def remove(self, parent, body):
        del self.nodes[parent].names[name_in(body)]
        return b""

    def rename(self, parent, body, names_at=8):
        to = struct.unpack_from("<Q", body)[0]
        old, new = body[names_at:].split(b"\0")[:2]
        self.nodes[to].names[new] = self.nodes[parent].names.pop(old)
        return b""

    def rename2(self, parent, body):
        return self.rename(parent, body, 16)

    def open(self, _, __):
        return struct.pack("<QII", 0, 0, 0)

    def read(self, number, body):
        offset, size = struct.unpack_from("<QI", body, 8)
        if FAILS in self.nodes[1].names:
            raise OSError(errno.EIO, "")
        return bytes(self.nodes[number].data[offset:offset + size])

    def write(self, number, body):
        offset, size = struct.unpack_from("<QI", body, 8)
        data = self.nodes[number].data
        data.extend(bytes(max(0, offset - len(data))))
        data[offset:offset + size] = body[40:40 + size]
        return struct.pack("<II", size, 0)

    def statfs(self, _, __):
        blocks = 64 << 18  # 64 GiB
        return struct.pack("<5Q4I24x", blocks, blocks, blocks, 1 << 20, 1 << 20, 4096, 255, 4096, 0)

    def readdir(self, number, body):
        offset = struct.unpack_from("<Q", body, 8)[0]
        listed = b""
        for index, (name, child) in list(enumerate(self.nodes[number].names.items(), 1))[offset:]:
            kind = stat.S_IFMT(self.nodes[child].mode) >> 12
            listed += (struct.pack("<QQII", child, index, len(name), kind) + name).ljust((24 + len(name) + 7) // 8 * 8, b"\0")
        return listed[:4096]  # a few files

    def nothing(self, _, __):
        return b""


def name_in(body):
    return body.split(b"\0")[0]


def serve(device, requests, refused=()):
    tree = Tree()
    answers = {LOOKUP: tree.lookup, GETATTR: tree.getattr, SETATTR: tree.setattr, MKDIR: tree.mkdir, UNLINK: tree.remove, RMDIR: tree.remove,
               RENAME: tree.rename, RENAME2: tree.rename2, OPEN: tree.open, OPENDIR: tree.open, READ: tree.read, WRITE: tree.write,
               STATFS: tree.statfs, READDIR: tree.readdir, CREATE: tree.create,
               **dict.fromkeys((RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR, ACCESS), tree.nothing)}
    for operation in refused:
        del answers[operation]
    while requests:
        request = os.read(device, 1 << 18)
        _, operation, unique, node = HEADER.unpack_from(request)[:4]
        if operation in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        error, reply = 0, b""
        if operation == INIT:
            reply = struct.pack("<4I2H2I2H8I", 7, 31, 1 << 17, BIG_WRITES, 16, 12, 1 << 17, 1, 0, 0, *[0] * 8)
        else:
            requests -= 1
            try:
                reply = answers[operation](node, request[HEADER.size:])
            except KeyError:
                error = errno.ENOSYS if operation not in answers else errno.ENOENT
            except OSError as failed:
                error = failed.errno
        os.write(device, struct.pack("<IiQ", 16 + len(reply), -error, unique) + reply)


def main():
    point, kind, requests = sys.argv[1], sys.argv[2], int(sys.argv[3])
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"hanging", point.encode(), kind.encode(), 0, options.encode()) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    try:
        serve(device, requests, [FLUSH] if sys.argv[4:] == ["closes"] else [])
    except OSError as error:  # unmounted
        if error.errno != errno.ENODEV:
            raise
    time.sleep(600)  # and answers nobody


main()

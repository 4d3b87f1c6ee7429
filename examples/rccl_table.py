"""The table of nccl-tests, by a collective library of yours: RCCL, unmodified, on hosts with stand-ins for GPUs.

    gradwire exec --workers 4 --rate 100gbit --gpus 1 --launch torch -- python3 examples/rccl_table.py all-reduce --sizes 1MiB,16MiB

Each device of each host is a rank. Times are means over calls, of the slowest rank, on the virtual clock. With --gpu-data, `--check` compares every
element with what NumPy computes. Needs librccl.so.1 and libamdhip64.so.5 where the loader finds them, and NumPy for --check alone.
"""

import argparse
import ctypes
import importlib
import os
import socket
import struct
import sys
import time

TYPES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
}
OPERATIONS = ("sum", "prod", "max", "min", "avg")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "send-recv", "all-to-all")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}
TO_DEVICE, TO_HOST, NON_BLOCKING = 1, 2, 1
ID_BYTES = 128


def size_bytes(text):
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * UNITS[unit]


class Ranks:
    """All ranks, as rank 0 knows them: by a connection to each, next to the network's own traffic, for what a launcher does."""

    def __init__(self, rank, ranks, address, port):
        self.rank, self.others = rank, []
        if rank == 0:
            server = socket.create_server((address, port), backlog=ranks)
            self.others = [server.accept()[0] for _ in range(ranks - 1)]
        else:
            self.others = [self._reached(address, port)]

    @staticmethod
    def _reached(address, port):
        while True:
            try:
                return socket.create_connection((address, port))
            except ConnectionRefusedError:  # rank 0 is not there yet
                time.sleep(0.001)

    def largest(self, value=0.0):
        """Returns the largest of the ranks' values; nobody has it before all have asked for it."""
        if self.rank:
            self.others[0].sendall(struct.pack("d", value))
            return struct.unpack("d", self._received(self.others[0], 8))[0]
        most = max([value, *(struct.unpack("d", self._received(other, 8))[0] for other in self.others)])
        for other in self.others:
            other.sendall(struct.pack("d", most))
        return most

    def of_first(self, content):
        """Returns the bytes that rank 0 has."""
        if self.rank:
            return self._received(self.others[0], len(content))
        for other in self.others:
            other.sendall(content)
        return content

    @staticmethod
    def _received(connection, size):
        content = b""
        while len(content) < size:
            part = connection.recv(size - len(content))
            if not part:
                sys.exit("a rank has ended before its time")
            content += part
        return content


class Id(ctypes.Structure):
    _fields_ = (("content", ctypes.c_char * ID_BYTES),)


class Library:
    """RCCL and the runtime below it, by ctypes: every call's result is checked."""

    def __init__(self):
        self.hip = ctypes.CDLL("libamdhip64.so.5", ctypes.RTLD_GLOBAL)
        self.rccl = ctypes.CDLL("librccl.so.1")
        self.rccl.ncclGetErrorString.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.rccl if name.startswith("nccl") else self.hip, name)

        def call(*words):
            result = function(*words)
            if result:
                why = self.rccl.ncclGetErrorString(result).decode() if name.startswith("nccl") else f"error {result}"
                sys.exit(f"{name}: {why}")

        return call


class Buffers:
    """A rank's input and output on its device; where a collective is in place, its part of one of them."""

    def __init__(self, library, most_bytes):
        self.library = library
        self.input, self.output = ctypes.c_void_p(), ctypes.c_void_p()
        library.hipMalloc(ctypes.byref(self.input), ctypes.c_size_t(most_bytes))
        library.hipMalloc(ctypes.byref(self.output), ctypes.c_size_t(most_bytes))


class Call:
    """One collective of one size, as nccl-tests count: what is called size is the larger of a rank's input and output."""

    def __init__(self, kind, wanted_bytes, dtype, operation, rank, ranks):
        self.kind, self.dtype, self.operation, self.rank, self.ranks = kind, dtype, operation, rank, ranks
        self.is_divided = kind in ("all-gather", "reduce-scatter", "all-to-all")
        elements = max(1, wanted_bytes // TYPES[dtype])
        self.count = max(1, elements // ranks) if self.is_divided else elements  # per rank, where it is divided
        self.elements = self.count * ranks if self.is_divided else elements
        self.size_bytes = self.elements * TYPES[dtype]
        self.reduces = kind in ("all-reduce", "reduce-scatter", "reduce")

    @property
    def bus_factor(self):
        """busbw over algbw (nccl-tests, doc/PERFORMANCE.md)."""
        if self.kind == "all-reduce":
            return 2 * (self.ranks - 1) / self.ranks
        return (self.ranks - 1) / self.ranks if self.is_divided else 1.0

    def make(self, library, communicator, stream, buffers):
        """Calls it once, out of place; returns before it is done."""
        types, operations = list(TYPES), list(OPERATIONS)
        count, dtype = ctypes.c_size_t(self.count), types.index(self.dtype)
        operation, where = operations.index(self.operation), (communicator, stream)
        if self.kind == "all-reduce":
            library.ncclAllReduce(buffers.input, buffers.output, count, dtype, operation, *where)
        elif self.kind == "all-gather":
            library.ncclAllGather(buffers.input, buffers.output, count, dtype, *where)
        elif self.kind == "reduce-scatter":
            library.ncclReduceScatter(buffers.input, buffers.output, count, dtype, operation, *where)
        elif self.kind == "broadcast":
            library.ncclBroadcast(buffers.input, buffers.output, count, dtype, 0, *where)
        elif self.kind == "reduce":
            library.ncclReduce(buffers.input, buffers.output, count, dtype, operation, 0, *where)
        else:
            self._exchange(library, buffers, dtype, where)

    def _exchange(self, library, buffers, dtype, where):
        """Sends to the next rank and receives from the one before, or does both with all."""
        count = ctypes.c_size_t(self.count)
        part_bytes = self.count * TYPES[self.dtype] if self.is_divided else 0
        to = range(self.ranks) if self.is_divided else [(self.rank + 1) % self.ranks]
        come = range(self.ranks) if self.is_divided else [(self.rank - 1) % self.ranks]
        library.ncclGroupStart()
        for peer, source in zip(to, come):
            library.ncclSend(ctypes.c_void_p(buffers.input.value + peer * part_bytes), count, dtype, peer, *where)
            library.ncclRecv(ctypes.c_void_p(buffers.output.value + source * part_bytes), count, dtype, source, *where)
        library.ncclGroupEnd()


def parsed():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("collectives", help=f"{', '.join(COLLECTIVES)}; several with commas between them, or all")
    arguments.add_argument("--sizes", default="1MiB,16MiB", help="e.g. 64KiB,1MiB")
    arguments.add_argument("--dtype", default="float", help=f"{', '.join(TYPES)}; several with commas, or all")
    arguments.add_argument("--op", default="sum", help=f"{', '.join(OPERATIONS)}; several with commas, or all")
    arguments.add_argument("--warmup", type=int, default=2, help="calls before those that count")
    arguments.add_argument("--iterations", type=int, default=5)
    arguments.add_argument("--check", action="store_true", help="compare with NumPy; with gradwire exec --gpu-data")
    chosen = arguments.parse_args()
    for name, known in (("collectives", COLLECTIVES), ("dtype", TYPES), ("op", OPERATIONS)):
        named = list(known) if getattr(chosen, name) == "all" else getattr(chosen, name).split(",")
        if unknown := [each for each in named if each not in known]:
            arguments.error(f"{name} {unknown[0]}: is none of {', '.join(known)}")
        setattr(chosen, name, named)
    chosen.sizes = [size_bytes(text) for text in chosen.sizes.split(",")]
    return chosen


def calls(chosen, rank, ranks):
    for kind in chosen.collectives:
        for wanted_bytes in chosen.sizes:
            for dtype in chosen.dtype:
                for operation in chosen.op if Call(kind, 1, dtype, "sum", rank, ranks).reduces else ["none"]:
                    yield Call(kind, wanted_bytes, dtype, operation if operation != "none" else "sum", rank, ranks)


def run(rank, ranks, device, chosen):
    """One rank: prints the table if it is the first, and returns the number of wrong elements."""
    everyone = Ranks(
        rank, ranks, os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))
    )
    library, version = Library(), ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(version))
    library.hipSetDevice(device)
    identity, communicator, stream = Id(), ctypes.c_void_p(), ctypes.c_void_p()
    if rank == 0:
        library.ncclGetUniqueId(ctypes.byref(identity))
    identity = Id.from_buffer_copy(everyone.of_first(bytes(identity)))
    begin_s = time.monotonic()
    library.ncclCommInitRank(ctypes.byref(communicator), ranks, identity, rank)
    if rank == 0:
        print(f"# RCCL {version.value}, {ranks} ranks, communicator after {time.monotonic() - begin_s:.6f} s")
        print(
            f"# {'collective':>14} {'size (B)':>12} {'count':>12} {'type':>9} {'redop':>5} {'time (us)':>12} {'algbw':>8} {'busbw':>8} #wrong"
        )
    library.hipStreamCreateWithFlags(ctypes.byref(stream), NON_BLOCKING)
    check = importlib.import_module("rccl_check") if chosen.check else None
    planned = list(calls(chosen, rank, ranks))
    buffers, wrong = Buffers(library, max(call.size_bytes for call in planned)), 0
    for call in planned:
        if check:
            check.fill(library, buffers, call)
        for number in range(chosen.warmup + chosen.iterations):
            if number == chosen.warmup:
                everyone.largest()
                begin_s = time.monotonic()
            call.make(library, communicator, stream, buffers)
            if number == chosen.warmup - 1:
                library.hipStreamSynchronize(stream)
        library.hipStreamSynchronize(stream)
        time_s = everyone.largest((time.monotonic() - begin_s) / chosen.iterations)
        found = check.wrong_elements(library, buffers, call) if check else 0
        wrong += found
        told = round(everyone.largest(float(found))) if check else "N/A"
        if rank == 0:
            rate = call.size_bytes / time_s / 1e9 if time_s else float("inf")
            redop = call.operation if call.reduces else "none"
            print(
                f"{call.kind:>16} {call.size_bytes:>12} {call.count:>12} {call.dtype:>9} {redop:>5} {time_s * 1e6:>12.3f} "
                f"{rate:>8.3f} {rate * call.bus_factor:>8.3f} {told:>6}",
                flush=True,
            )
    everyone.largest()  # RCCL 2.13 stops its threads without sending what they have left
    library.ncclCommDestroy(communicator)
    return wrong


def main():
    chosen = parsed()
    devices = int(os.environ.get("GRADWIRE_GPUS", "1"))
    host, hosts = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    children = []
    for device in range(1, devices):
        child = os.fork()
        if child == 0:
            os._exit(run(host * devices + device, hosts * devices, device, chosen) != 0)
        children.append(child)
    wrong = run(host * devices, hosts * devices, 0, chosen)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    sys.exit(1 if wrong or failed else 0)


main()

"""What `rccl_table.py --check` compares with: inputs that every type can hold exactly, and results by NumPy."""

import ctypes

import numpy as np

NUMPY = {"half": np.float16, "float": np.float32, "double": np.float64, "bfloat16": np.uint16}
TO_DEVICE, TO_HOST = 1, 2
PATTERN = 7


def numpy_type(dtype):
    return NUMPY.get(dtype) or np.dtype(dtype).type


def stored(values, dtype):
    """Numbers as the type has them: bfloat16 is the upper half of a float."""
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(numpy_type(dtype))


def values_of(call, rank):
    """A rank's input, in whole numbers that no operation makes inexact."""
    index = np.arange(call.elements, dtype=np.int64)
    if call.reduces and call.operation == "prod":
        return 1 + (index + rank) % 2
    values = (index + 3 * rank) % PATTERN
    return values * call.ranks if call.operation == "avg" and call.reduces else values


def fill(library, buffers, call):
    given = stored(values_of(call, call.rank), call.dtype)
    empty = np.zeros_like(given)
    for buffer, content in ((buffers.input, given), (buffers.output, empty)):
        library.hipMemcpy(buffer, content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes), TO_DEVICE)


def reduced(call):
    every = np.stack([values_of(call, rank) for rank in range(call.ranks)])
    if call.operation == "avg":
        return every.sum(0) // call.ranks
    return {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[call.operation](every, axis=0)


def expected(call):
    """The output's first elements, as many as the collective writes on this rank."""
    rank, ranks, count = call.rank, call.ranks, call.count
    part = slice(rank * count, (rank + 1) * count)
    match call.kind:
        case "all-reduce":
            wanted = reduced(call)
        case "reduce":
            wanted = reduced(call)[: 0 if rank else None]
        case "reduce-scatter":
            wanted = reduced(call)[part]
        case "broadcast":
            wanted = values_of(call, 0)
        case "send-recv":
            wanted = values_of(call, (rank - 1) % ranks)
        case "all-gather":
            wanted = np.concatenate([values_of(call, each)[:count] for each in range(ranks)])
        case _:
            wanted = np.concatenate([values_of(call, each)[part] for each in range(ranks)])
    return wanted


def wrong_elements(library, buffers, call):
    wanted = stored(expected(call), call.dtype)
    found = np.empty_like(wanted)
    library.hipMemcpy(found.ctypes.data_as(ctypes.c_void_p), buffers.output, ctypes.c_size_t(found.nbytes), TO_HOST)
    return int(np.count_nonzero(found != wanted))

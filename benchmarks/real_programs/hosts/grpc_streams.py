"""gRPC between two hosts: `grpc_streams.py serves|asks ADDRESS`. The client asks 1,000 times, each time after an answer, then has 1,000
streams at once on one connection, which bring 150 MB together."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import grpc

QUESTIONS, STREAMS, PARTS, PART_BYTES = 1000, 1000, 10, 15_000
PING, FILE, END = "/talk/ping", "/talk/file", "/talk/end"


class Talk(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers questions, and sends parts of a file."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The function of a method."""
        return {
            PING: grpc.unary_unary_rpc_method_handler(self._answer),
            FILE: grpc.unary_stream_rpc_method_handler(self._send),
            END: grpc.unary_unary_rpc_method_handler(self._end),
        }[details.method]

    async def _answer(self, question: bytes, _: grpc.aio.ServicerContext) -> bytes:
        return question

    async def _send(self, _question: bytes, _: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        for _part in range(PARTS):
            yield bytes(PART_BYTES)

    async def _end(self, question: bytes, _: grpc.aio.ServicerContext) -> bytes:
        self.ended.set()
        return question


async def serve(address: str) -> None:
    """Serves until the client ends it."""
    server, talk = grpc.aio.server(), Talk()
    server.add_generic_rpc_handlers((talk,))
    server.add_insecure_port(address)
    await server.start()
    await talk.ended.wait()
    await server.stop(1)


async def ask(address: str) -> None:
    """Prints what it takes until all questions have been answered, and until all streams have ended."""
    async with grpc.aio.insecure_channel(address) as channel:
        ping, file = channel.unary_unary(PING), channel.unary_stream(FILE)
        await ping(b"first", wait_for_ready=True)
        begin_s = time.monotonic()
        for _ in range(QUESTIONS):
            await ping(b"ping")
        print("RESULT requests", time.monotonic() - begin_s)

        async def read() -> int:
            return sum([len(part) async for part in file(b"")])

        begin_s = time.monotonic()
        sizes = await asyncio.gather(*(read() for _ in range(STREAMS)))
        assert sum(sizes) == STREAMS * PARTS * PART_BYTES
        print("RESULT file", time.monotonic() - begin_s)
        await channel.unary_unary(END)(b"")


asyncio.run((serve if sys.argv[1] == "serves" else ask)(sys.argv[2]))

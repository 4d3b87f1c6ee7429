"""A file by QUIC: `aioquic_file.py serves|asks SERVER KEYS`. Who asks opens a stream, and reads it until 15 MB have come."""

import asyncio
import ssl
import sys
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration

PORT, FILE_BYTES, PART_BYTES = 4433, 15_000_000, 1 << 20
WINDOW_BYTES = 2 * FILE_BYTES
"""What the receiver allows to be under way: more than the file, so that congestion control alone decides."""
SERVES_S = 8.0


def settings(*, is_client: bool) -> QuicConfiguration:
    """Returns the settings of one side."""
    return QuicConfiguration(
        is_client=is_client, alpn_protocols=["file"], max_data=WINDOW_BYTES, max_stream_data=WINDOW_BYTES
    )


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends the file once the other has asked."""
    await reader.readline()
    writer.write(bytes(FILE_BYTES))
    writer.write_eof()


async def serve_file(keys: str) -> None:
    """Serves for a while."""
    here = settings(is_client=False)
    here.load_cert_chain(f"{keys}/tls.crt", f"{keys}/tls.key")
    answers = set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.add(asyncio.ensure_future(answer(reader, writer)))

    await serve("0.0.0.0", PORT, configuration=here, stream_handler=begin)
    await asyncio.sleep(SERVES_S)


async def ask(server: str) -> None:
    """Prints what the file takes once there is a connection."""
    await asyncio.sleep(1)
    there = settings(is_client=True)
    there.verify_mode = ssl.CERT_NONE
    async with connect(server, PORT, configuration=there) as client:
        reader, writer = await client.create_stream()
        begin_s = time.monotonic()
        writer.write(b"file\n")
        taken = 0
        while part := await reader.read(PART_BYTES):
            taken += len(part)
        assert taken == FILE_BYTES
        print("RESULT file", time.monotonic() - begin_s)


asyncio.run(ask(sys.argv[2]) if sys.argv[1] == "asks" else serve_file(sys.argv[3]))

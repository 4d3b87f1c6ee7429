"""A file over QUIC by aioquic: `quic_peer.py serve CERTIFICATE KEY FILE`, and `quic_peer.py fetch CERTIFICATE HOST`,
which prints the SHA-256 of what it got."""

import asyncio
import hashlib
import sys
from pathlib import Path

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration

PORT, PROTOCOL = 4433, ["lab"]


async def serve_file(certificate, key, file):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=PROTOCOL)
    configuration.load_cert_chain(certificate, key)
    content = Path(file).read_bytes()

    async def answer(reader, writer):
        await reader.readline()
        writer.write(content)
        writer.write_eof()

    await serve(
        "0.0.0.0",
        PORT,
        configuration=configuration,
        stream_handler=lambda reader, writer: tasks.add(asyncio.ensure_future(answer(reader, writer))),
    )
    tasks = set()
    await asyncio.Event().wait()


async def fetch(certificate, host):
    configuration = QuicConfiguration(alpn_protocols=PROTOCOL, server_name="server")
    configuration.load_verify_locations(certificate)
    async with connect(host, PORT, configuration=configuration) as client:
        reader, writer = await client.create_stream()
        writer.write(b"GET\n")
        writer.write_eof()
        content = await reader.read()
    print(len(content), hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    act = {"serve": serve_file, "fetch": fetch}[sys.argv[1]]
    asyncio.run(act(*sys.argv[2:]))

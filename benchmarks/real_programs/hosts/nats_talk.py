"""A client of NATS: `nats_talk.py asks|answers SERVER`. One asks 1,000 times, each time after an answer, and sends 150 MB to the other."""

import asyncio
import sys
import time

import nats
from nats.aio.msg import Msg

QUESTIONS, MESSAGES, MESSAGE_BYTES = 1000, 150, 1_000_000
JOINED_S = 2.0
"""By then, servers and clients know each other."""


async def ask(client: nats.NATS) -> None:
    """Prints what it takes until all have been answered, and until the other has all that is sent."""
    await asyncio.sleep(JOINED_S)
    await client.request("questions", b"", timeout=1)
    begin_s = time.monotonic()
    for _ in range(QUESTIONS):
        await client.request("questions", b"", timeout=1)
    print("RESULT requests", time.monotonic() - begin_s)
    taken = asyncio.get_running_loop().create_future()

    async def noted(_: Msg) -> None:
        taken.set_result(None)

    await client.subscribe("taken", cb=noted)
    await client.flush()
    begin_s = time.monotonic()
    for _ in range(MESSAGES):
        await client.publish("parts", bytes(MESSAGE_BYTES))
        await client.flush() if client.pending_data_size > MESSAGE_BYTES else None
    await taken
    print("RESULT file", time.monotonic() - begin_s)


async def answer(client: nats.NATS) -> None:
    """Answers, until it has taken all that it is sent."""
    taken, all_taken = 0, asyncio.get_running_loop().create_future()

    async def answered(message: Msg) -> None:
        await message.respond(b"")

    async def counted(message: Msg) -> None:
        nonlocal taken
        taken += len(message.data)
        if taken == MESSAGES * MESSAGE_BYTES:
            all_taken.set_result(None)

    await client.subscribe("questions", cb=answered)
    await client.subscribe("parts", cb=counted, pending_bytes_limit=MESSAGES * MESSAGE_BYTES * 2)
    await all_taken
    await client.publish("taken", b"")
    await client.flush()


async def main() -> None:
    """Connects once the server is there."""
    await asyncio.sleep(1)
    client = await nats.connect(f"nats://{sys.argv[2]}:4222")
    await (ask if sys.argv[1] == "asks" else answer)(client)
    await client.close()


asyncio.run(main())

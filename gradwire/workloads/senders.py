"""When the senders of a system take a message for sent, so that their queue goes on with the next one.

Every strategy says it of the system that it comes from (`Strategy.senders`). What a scenario sets goes before it:
transport.send_ends and transport.unsent.
"""

from __future__ import annotations

from dataclasses import dataclass

UNSENT_BYTES = 1 << 20
"""What may wait unsent for a connection where nobody says how much: several messages of most plans."""


@dataclass(frozen=True)
class Senders:
    """What ends a message's SEND, so that its queue goes on."""

    #: Most bytes that may wait unsent in a connection's socket when the SEND ends; None: it ends when its last byte
    #: has left the host.
    unsent_bytes: int | None
    #: Whose senders do so, and what shows it.
    source: str

    @property
    def rule(self) -> str:
        """The rule in the words of transport.send_ends."""
        return "departure" if self.unsent_bytes is None else "buffered"


AS_THEY_LEAVE = Senders(
    None,
    "collectives: what a rank sends next waits for what it has received, and seldom for its own last message to leave. So sent, plans take "
    "within 1 % of what Gloo and PyTorch's DDP take (docs/trust.md, real programs against plans)",
)
"""Of allreduces and all other exchanges step by step, and of strategies that say nothing."""
SIMULATED = Senders(
    None,
    "NetOps, section 6: a simulator, in which a message takes its bytes over the rate of the line, and the next one follows it",
)
"""Of NetOps' strategies, which no system was built for."""
GRPC = Senders(
    UNSENT_BYTES,
    "TensorFlow hands tensors to gRPC, where a message is sent when outgoing flow control has accepted its bytes (grpc_op_type, "
    "GRPC_OP_SEND_MESSAGE), and not when they have left",
)
"""Of TensorFlow's parameter servers."""
PS_LITE = Senders(
    UNSENT_BYTES,
    "MXNet's ps-lite sends by ZeroMQ, where a message that was sent is queued on a socket and need not have reached the network "
    "(zmq_msg_send(3)); up to 1,000 may wait for a peer (ZMQ_SNDHWM)",
)
"""Of MXNet's KVStore."""
ONE_SLICE_BYTES = 256_000
"""A slice of P3's 50,000 parameters has 200 kB, and a socket takes its last byte when less than this waits."""
P3_CONSUMER = Senders(
    ONE_SLICE_BYTES,
    "P3, section 4.2: one thread sends with blocking calls. In the public code ps-lite's sockets hold one message (ZMQ_SNDHWM = 1), so "
    "that a call blocks while one slice waits",
)
"""Of P3's worker and server threads."""

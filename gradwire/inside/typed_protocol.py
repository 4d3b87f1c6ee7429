"""Messages about what a person types and sees, between a command and its job in the kernel: lines at a prompt, and
windows in which nodes' shells run."""

from __future__ import annotations

import msgspec


class TerminalSize(msgspec.Struct, frozen=True):
    """A terminal's size, in characters."""

    rows: int
    columns: int


class LineAsked(msgspec.Struct, frozen=True, tag_field="event", tag="asked"):
    """A script wants a line of input: no virtual time passes before a LineGiven or an Interrupt comes, unless a window's
    command runs."""

    #: What may begin a line, and what may follow, for whoever completes words.
    first_words: tuple[str, ...] = ()
    later_words: tuple[str, ...] = ()
    #: Earlier lines, of which the script has read a file.
    history: tuple[str, ...] = ()


class Passed(msgspec.Struct, frozen=True, tag_field="event", tag="passed"):
    """Something that a person types to has run for a while: it continues when a Taken or a Typed comes."""

    #: The virtual clock.
    virtual_s: float


class Rested(msgspec.Struct, frozen=True, tag_field="event", tag="rested"):
    """The job waits for the next command, and no virtual time passes before it comes."""

    #: How many commands the job has heard so far: whoever has sent more need not stop the kernel.
    heard: int


class WindowAsked(msgspec.Struct, frozen=True, tag_field="event", tag="wanted"):
    """A script wants a window with a shell on one of its nodes; an Opening answers."""

    node: str
    #: The process that holds the node, in the script's own numbers.
    pid: int


class WindowOutput(msgspec.Struct, frozen=True, tag_field="event", tag="screen"):
    """Output of a window's shell."""

    window: int
    data: bytes


class Over(msgspec.Struct, frozen=True, tag_field="event", tag="over"):
    """A window's shell has ended."""

    window: int


class LineGiven(msgspec.Struct, frozen=True, tag_field="command", tag="given"):
    """The line that a script has asked for, with its end; empty at the end of the input."""

    line: bytes


class Typed(msgspec.Struct, frozen=True, tag_field="command", tag="typed"):
    """Input that a person typed while a script ran that had not asked for it."""

    data: bytes


class Interrupt(msgspec.Struct, frozen=True, tag_field="command", tag="interrupt"):
    """End the program that runs, as Ctrl-C does."""


class Opening(msgspec.Struct, frozen=True, tag_field="command", tag="opening"):
    """A window is being opened, or cannot be: an answer."""

    #: Its number, or -1.
    window: int
    #: Where it is, or why there is none.
    said: str


class Open(msgspec.Struct, frozen=True, tag_field="command", tag="open"):
    """Start the shell of a window that has opened."""

    window: int
    size: TerminalSize
    #: The kind of terminal (TERM).
    kind: str


class Keys(msgspec.Struct, frozen=True, tag_field="command", tag="keys"):
    """Keys that a person has typed in a window."""

    window: int
    data: bytes


class Resized(msgspec.Struct, frozen=True, tag_field="command", tag="resized"):
    """A window has another size."""

    window: int
    size: TerminalSize


class Shut(msgspec.Struct, frozen=True, tag_field="command", tag="shut"):
    """A window was closed."""

    window: int


WindowCommand = Open | Keys | Resized | Shut
TypedEvent = LineAsked | Passed | Rested | WindowAsked | WindowOutput | Over
TypedCommand = LineGiven | Typed | Interrupt | Opening | WindowCommand

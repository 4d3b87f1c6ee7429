"""Who is at fault: the three families of errors that a person can meet, so that each message can say what to do.

Every error that is raised on purpose is one of these. Anything else that escapes is a bug of ours.
"""


class Fault(Exception):
    """Base of all errors raised on purpose. The message alone must tell the reader what to do next."""


class InputFault(Fault):
    """The input is wrong: names the file, the key, and what would be right."""


class MachineFault(Fault):
    """The machine lacks something or failed: names what is missing and the command that mends it."""


class InternalFault(Fault):
    """A bug of gradwire: names what to report."""

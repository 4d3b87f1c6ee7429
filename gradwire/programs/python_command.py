"""A command that starts Python, taken apart, so that a Python that has imported its modules can be forked in its place.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gradwire.faults import InputFault
from gradwire.inside.program_protocol import Runs, WarmPython

WITH_A_VALUE = ("W", "X")
"""Python's options that are followed by a value, in the same word or in the next."""
WITHOUT_A_SCRIPT = "hiV?"
"""Options with which Python does something else than run a script and end."""
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_FOR_A_SHELL = set("|&;<>()`*?[]{}!#~\n$")
_KEPT_BY_QUOTES = '$`"\\\n'
"""Characters that a backslash between double quotes escapes (POSIX, 2.2.3)."""


def warm_python(argv: Sequence[str], imports: Sequence[str]) -> WarmPython:
    """Takes a command apart. Raises InputFault for one that does not start Python with a script, a module or code."""
    wrong = [name for name in imports if not _MODULE.fullmatch(name)]
    if wrong:
        raise InputFault(f"{wrong[0]!r}: is not a name of a module, such as torch or torch.distributed")
    if not argv or not _PYTHON.fullmatch(argv[0]):
        raise InputFault(
            f"{argv[0] if argv else 'nothing'}: is not called python, so no modules can be imported before it starts; "
            "name the interpreter first, as in `python3 train.py`"
        )
    taken, words = [argv[0]], list(argv[1:])
    while words:
        word = words.pop(0)
        if word == "-" or not word.startswith("-"):
            break
        if word.startswith("--"):
            raise InputFault(f"{argv[0]} {word}: with this option, no modules can be imported before it starts")
        letters, runs, value = _option(word)
        taken += letters
        if runs is not None:
            if not value and not words:
                raise InputFault(f"{argv[0]} {word}: names nothing to run")
            return WarmPython(tuple(taken), runs, value or words.pop(0), tuple(words), tuple(imports))
        if letters and letters[-1] in {f"-{letter}" for letter in WITH_A_VALUE}:
            taken.append(words.pop(0) if words else "")
    else:
        word = "-"
    if word == "-":
        raise InputFault(f"{argv[0]}: reads its script from its input, of which programs have none")
    return WarmPython(tuple(taken), Runs.SCRIPT, word, tuple(words), tuple(imports))


def _option(word: str) -> tuple[list[str], Runs | None, str]:
    """The options in a word such as -uc, the kind of program that the last of them runs, and the rest of the
    word."""
    options: list[str] = []
    for place, letter in enumerate(word[1:], start=1):
        rest = word[place + 1 :]
        if letter in "cm":
            return options, Runs.CODE if letter == "c" else Runs.MODULE, rest
        if letter in WITH_A_VALUE:
            return [*options, f"-{letter}{rest}"], None, ""
        if letter in WITHOUT_A_SCRIPT:
            raise InputFault(f"python {word}: with -{letter}, no modules can be imported before it starts")
        options.append(f"-{letter}")
    return options, None, ""


def words_of(line: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words that a shell would make of a plain command: quotes, backslashes and variables, and nothing else.

    An `exec` before it is left out. Raises InputFault for a line that needs a shell.
    """
    words: list[str] = []
    word: str | None = None
    letters = iter(_Letters(line, variables))
    for text, is_quoted, is_variable in letters:
        if not is_quoted and not is_variable and text.isspace():
            words, word = ([*words, word], None) if word is not None else (words, None)
        elif is_variable and not is_quoted:
            parts = re.split(r"[ \t\n]+", text)
            for place, part in enumerate(parts):
                if place and word is not None:
                    words, word = [*words, word], None
                if part:
                    word = (word or "") + part
        else:
            word = (word or "") + text
    words += [word] if word is not None else []
    words = words[1:] if words[:1] == ["exec"] else words
    if words and re.match(r"[A-Za-z_]\w*=", words[0]):
        raise InputFault(
            f"{line}: begins with a variable, which only a shell sets; give it in `arguments`, or in the environment"
        )
    return tuple(words)


class _Letters:
    """A line's letters and values of variables, each with whether it is quoted and whether it is a variable's."""

    def __init__(self, line: str, variables: Mapping[str, str]) -> None:
        self._line, self._variables = line.strip(), variables

    def __iter__(self) -> Iterator[tuple[str, bool, bool]]:
        line, place, quote = self._line, 0, ""
        while place < len(line):
            letter = line[place]
            if quote == "'":
                quote = "" if letter == "'" else quote
                yield ("" if letter == "'" else letter), True, False
            elif letter in "'\"" and quote in ("", letter):
                quote = "" if quote else letter
                yield "", True, False
            elif letter == "\\" and (not quote or line[place + 1 : place + 2] in _KEPT_BY_QUOTES):
                place += 1
                yield line[place : place + 1], True, False
            elif letter == "$" and (name := _NAME.match(line, place)):
                place = name.end() - 1
                yield self._variables.get(name[1] or name[2], ""), bool(quote), True
            elif letter in ("`$" if quote else _FOR_A_SHELL):
                raise InputFault(
                    f"{line}: modules can be imported before a plain `python SCRIPT ARGUMENTS`, and {letter!r} needs a "
                    "shell; put what the shell does into the script"
                )
            else:
                yield letter, bool(quote), False
            place += 1
        if quote:
            raise InputFault(f"{line}: a quotation mark is not closed")

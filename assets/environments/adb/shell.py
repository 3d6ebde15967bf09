"""The grammar of a phone's shell, as far as drivers use it. Nothing here ever reaches a real shell.

A line is a list of pipelines joined by `;`, `&`, `&&`, `||` or line ends. Words are quoted as in `sh`: single and
double quotes, backslashes, `$NAME`, `${NAME}`, `$?`. Redirections are `>`, `>>`, `<` and `2>` to files, and `2>&1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class ShellSyntaxError(Exception):
    """A line that is not understood; the message is what the shell says."""


@dataclass
class Word:
    """A word before its variables are looked up: pieces of text, and of variable names marked with True."""

    pieces: list[tuple[str, bool]] = field(default_factory=list)

    def expand(self, variables: Mapping[str, str]) -> str:
        """The word's text."""
        return "".join(variables.get(text, "") if variable else text for text, variable in self.pieces)


@dataclass
class Command:
    """A program with its arguments and where its output goes: file names, `append` for `>>`."""

    words: list[Word] = field(default_factory=list)
    input: Word | None = None
    output: Word | None = None
    append: bool = False
    errors: Word | None = None
    errors_to_output: bool = False


@dataclass
class Pipeline:
    """Commands joined by `|`, and what joins them to the pipeline before: `;`, `&&` or `||`."""

    commands: list[Command]
    joint: str = ";"


def parse(line: str) -> list[Pipeline]:
    """Understand a line.

    Raises:
        ShellSyntaxError: a quote is left open, an operator has nothing beside it, or it asks for what is not there
            (command substitution, loops, functions).
    """
    pipelines: list[Pipeline] = []
    commands: list[Command] = []
    command = Command()
    joint = ";"
    tokens = _tokens(line)
    for kind, word in tokens:
        if kind == "word":
            if not command.words and word.expand({}) in _RESERVED:
                raise ShellSyntaxError(f"syntax error: unexpected '{word.expand({})}'")
            command.words.append(word)
        elif kind in ("<", ">", ">>", "2>"):
            following, target = next(tokens, ("end", Word()))
            if following != "word":
                raise ShellSyntaxError(f"syntax error: unexpected '{following}'")
            if kind == "<":
                command.input = target
            elif kind == "2>":
                command.errors = target
            else:
                command.output, command.append = target, kind == ">>"
        elif kind == "2>&1":
            command.errors_to_output = True
        elif kind == "|":
            if not command.words:
                raise ShellSyntaxError("syntax error: unexpected '|'")
            commands.append(command)
            command = Command()
        else:
            if command.words:
                pipelines.append(Pipeline([*commands, command], joint))
            elif commands or kind in ("&&", "||") or (joint in ("&&", "||") and kind != "\n"):
                raise ShellSyntaxError(f"syntax error: unexpected '{kind}'")
            else:
                continue
            commands, command = [], Command()
            joint = kind if kind in ("&&", "||") else ";"
    return pipelines


_RESERVED = ("if", "for", "while", "until", "case", "function", "{", "}", "!", "[[")
_OPERATORS = ("2>&1", "2>", "&&", "||", ">>", ";", "&", "|", ">", "<", "\n")


def _tokens(line: str) -> Iterator[tuple[str, Word]]:
    """(operator or `word`, the word), closed by the operator `end`."""
    position = 0
    while position < len(line):
        character = line[position]
        if character in " \t\r":
            position += 1
        elif character == "#":
            stop = line.find("\n", position)
            position = len(line) if stop < 0 else stop
        elif character in "()":
            raise ShellSyntaxError(f"syntax error: unexpected '{character}'")
        elif operator := next((text for text in _OPERATORS if line.startswith(text, position)), None):
            yield operator, Word()
            position += len(operator)
        else:
            word, position = _word(line, position)
            yield "word", word
    yield "end", Word()


def _word(line: str, position: int) -> tuple[Word, int]:
    word = Word()
    quote = ""
    while position < len(line):
        character = line[position]
        if quote == "'":
            stop = line.find("'", position)
            if stop < 0:
                raise ShellSyntaxError("no closing quote")
            word.pieces.append((line[position:stop], False))
            position, quote = stop + 1, ""
        elif character == "\\" and (not quote or line[position + 1 : position + 2] in ("$", "`", '"', "\\", "\n")):
            if position + 1 == len(line):
                raise ShellSyntaxError("no character after the last backslash")
            if line[position + 1] != "\n":
                word.pieces.append((line[position + 1], False))
            position += 2
        elif character == '"' or (character == "'" and not quote):
            word.pieces.append(("", False))
            quote = "" if quote else character
            position += 1
        elif character == "`" or line.startswith("$(", position):
            raise ShellSyntaxError("this shell has no command substitution")
        elif character == "$":
            name, after = _variable(line, position + 1)
            word.pieces.append((name, True) if name else ("$", False))
            position = after
        elif not quote and character in " \t\r\n;&|<>()":
            break
        else:
            word.pieces.append((character, False))
            position += 1
    if quote:
        raise ShellSyntaxError("no closing quote")
    return word, position


def _variable(line: str, position: int) -> tuple[str, int]:
    """Name after a `$`, and the position behind it; no name where the dollar stands for itself."""
    if line.startswith("{", position):
        stop = line.find("}", position)
        name = line[position + 1 : stop] if stop > 0 else ""
        if not (name == "?" or (name.isascii() and name.isidentifier())):
            raise ShellSyntaxError("bad substitution")
        return name, stop + 1
    if line.startswith("?", position):
        return "?", position + 1
    stop = position
    while stop < len(line) and line[stop].isascii() and (line[stop].isalnum() or line[stop] == "_"):
        stop += 1
    if line[position : position + 1].isdecimal():
        return "", position
    return line[position:stop], stop

"""How hard a request is taken to be: a sum of parts that anyone can follow, of the text before it is tokenised. Pure.

Cheap by design: it reads a bounded piece of the text, a few times over. What it cannot see is what the words mean.
"""

from __future__ import annotations

import re
from typing import Final

from control_plane.contracts.complexity_rule import PARTS, ComplexityRule
from control_plane.contracts.model_choice import PromptText, Score, ScorePart

READ_CHARACTERS: Final = 16 * 1024
"""Of a longer text, the first and the last half of so many characters are read; all of it counts as length."""

CODE_LINES: Final = 4
QUESTIONS: Final = 4
WORDS: Final = 2
"""At so many lines of code, questions or different words, their part counts in full."""

_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_CODE_LINE: Final = re.compile(
    r"^[ \t]*(?:(?:async def|def|fn|func|function) ?\*?[\w.]*[ \t]*[<(]"
    r"|(?:class|struct|interface|enum) \w+[^\n]{0,80}[:{(]"
    r"|(?:public|private|protected|static) \w[^\n]{0,120}[({;=]"
    r"|(?:const|let|var) [\w${\[][^=\n]{0,80}="
    r"|import [\w.]+(?: as \w+)?[ \t;]*$|import [^\n]{0,120} from ['\"]|from [\w.]+ import |#include\b|package [\w.]+;"
    r"|(?:if|for|while|switch) ?\([^\n]{0,200}\{|SELECT [^\n]{0,400}\bFROM |INSERT INTO |CREATE TABLE )[^\n]*"
    r"|[;{}][ \t]*$|\)[ \t]*(?:->[^:\n]{0,80})?:[ \t]*$",
    re.MULTILINE,
)
_QUESTION: Final = re.compile(r"\?+(?=[\s\"')\]*_]|$)|[？؟]+")
_TOKEN: Final = re.compile(r"\w+")


def score(prompt: PromptText, max_tokens: int | None, rule: ComplexityRule, *, in_full: bool = False) -> Score:
    """Every part of the rule, those that found nothing too. ``in_full``: with the words themselves, not their number.
    ``max_tokens`` None asks for no particular length, and counts as none."""
    text = _piece(prompt.asked)
    lines, fenced = _code(text)
    questions = len(_QUESTION.findall(text))
    words = _words(text, rule.words)
    found = {
        "length": (prompt.characters / rule.long_prompt, f"{prompt.characters} characters"),
        "code": (1.0 if fenced else lines / CODE_LINES, "fenced code" if fenced else _count(lines, "line of code")),
        "questions": ((questions - 1) / (QUESTIONS - 1), _count(questions, "question")),
        "reasoning": (len(words) / WORDS, ", ".join(words) if in_full and words else _count(len(words), "word")),
        "output": (
            (max_tokens or 0) / rule.long_output,
            f"{max_tokens} tokens asked" if max_tokens else "no length asked",
        ),
    }
    parts = tuple(ScorePart(name, _bounded(found[name][0]), rule.weights[name], found[name][1]) for name in PARTS)
    return Score(total(parts), parts)


def total(parts: tuple[ScorePart, ...]) -> float:
    """The sum of each part times its weight, at most 1."""
    return _bounded(sum(part.value * part.weight for part in parts))


def told(score: Score) -> str:
    """All of it in one line of ASCII."""
    return " + ".join(f"{part.name} {part.value:.2f} x {part.weight:g}" for part in score.parts)


def _piece(text: str) -> str:
    if len(text) <= READ_CHARACTERS:
        return text
    half = READ_CHARACTERS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _code(text: str) -> tuple[int, bool]:
    """How many lines look like code, as far as that matters, and whether some are fenced."""
    lines = 0
    for _ in _CODE_LINE.finditer(text):
        lines += 1
        if lines == CODE_LINES:
            break
    return lines, _FENCE.search(text) is not None


def _words(text: str, words: tuple[str, ...]) -> list[str]:
    """Those of the words that are there, each once."""
    folded = text.casefold()
    spaced = f" {' '.join(_TOKEN.findall(folded))} "
    found = []
    for word in words:
        wanted = word.casefold()
        # What is written without spaces between words is looked for anywhere.
        alone = wanted.upper() != wanted or wanted.isascii()
        if f" {' '.join(_TOKEN.findall(wanted))} " in spaced if alone else wanted in folded:
            found.append(word)
    return found


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    first, *rest = noun.split(" ")
    return " ".join((str(number), f"{first}s", *rest))


def _bounded(value: float) -> float:
    return min(1.0, max(0.0, value))

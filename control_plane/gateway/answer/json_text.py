"""Strings as JSON, for readers that split lines in more places than JSON knows."""

from __future__ import annotations

from json.encoder import encode_basestring

# Raw in JSON they are legal, but common clients take them for line ends inside an event.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def quoted(text: str) -> str:
    """The text as a JSON string that is valid UTF-8 and a single line to everyone."""
    if text.isascii():
        return encode_basestring(text)
    return encode_basestring(text).translate(_LINE_ENDS)

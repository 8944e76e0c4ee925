"""Text with any character in it: PostgreSQL has none with NUL, and callers and models may write one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator


class AnyText(TypeDecorator[str]):
    """NUL is kept as ESC 0, and ESC itself as ESC [."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None else value.replace("\x1b", "\x1b[").replace("\0", "\x1b0")

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        return value if value is None else str(value).replace("\x1b0", "\0").replace("\x1b[", "\x1b")

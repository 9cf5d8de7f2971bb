"""Lengths in UTF-16 code units, in which Telegram and Discord's apps count."""


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

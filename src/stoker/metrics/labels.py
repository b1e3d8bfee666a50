"""Label values: cut and cleaned, so that no name of a job can damage or swell what others read."""

MAX_LABEL_LETTERS = 200
_CUT = "…"
OTHER = "other"
"""Value of the labels of a series that stands for all series above the limit of its metric."""


def bounded_label(text: str) -> str:
    """The text as a label value: at most 200 letters, none of them a control character.

    Quotes and backslashes stay; the exposition escapes them.
    """
    if len(text) > MAX_LABEL_LETTERS:
        text = text[: MAX_LABEL_LETTERS - 1] + _CUT
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)

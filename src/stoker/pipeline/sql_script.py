"""SQL scripts: a file of statements is a job with one vertex.

Comments before the first statement can say more about it:

    -- name: top-products
    -- param: day=2026-11-01
    -- conf: spark.sql.shuffle.partitions=2
"""

import re
from collections.abc import Iterator

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, closest
from stoker.pipeline.drafts import JobDraft, ScriptDraft
from stoker.pipeline.sql_tokens import Kind, Token, Unterminated, line_of, tokens
from stoker.pipeline.texts import refuse

SCRIPT_VERTEX = "script"
_DIRECTIVES = ("name", "param", "conf")
_DIRECTIVE = re.compile(r"--\s*([A-Za-z]+)\s*:\s*(.*?)\s*")
_LOOPS = frozenset({"IF", "WHILE", "LOOP", "REPEAT", "FOR"})


def split_statements(script: str) -> list[str]:
    """The statements without the semicolons between them; raises Unterminated.

    A compound statement (BEGIN … END) is one statement, with the semicolons inside it.
    """
    statements: list[str] = []
    current: list[Token] = []
    depth = 0
    for token in tokens(script):
        if token.text == ";" and token.kind is Kind.SYMBOL:
            depth = _depth_of_blocks(current)
            if depth <= 0:
                statements.append(_stripped(current))
                current = []
                continue
        current.append(token)
    statements.append(_stripped(current))
    return [statement for statement in statements if statement]


def script_draft(script: str, *, file: str, default_name: str) -> JobDraft:
    """Raises InvalidJobGraph for an empty script and for bad comments at its head."""
    try:
        statements = split_statements(script)
        header = list(_header(script))
    except Unterminated as error:
        raise refuse(
            f"{file} line {error.line}", f"the {error.what} does not end", "close it"
        ) from error
    if not statements:
        raise refuse(file, "the script has no statement", "write at least one statement")
    name = default_name
    parameters: dict[str, str | None] = {}
    configuration: dict[str, str] = {}
    faults: list[str] = []
    for line, directive, value in header:
        place = f"{file} line {line}"
        key, equals, rest = (part.strip() for part in value.partition("="))
        if directive == "name":
            name = value
        elif not key or (directive == "conf" and not equals):
            faults.append(
                str(Fault(place, f"'-- {directive}: {value}' has no value", "write key=value"))
            )
        elif directive == "param":
            parameters[key] = rest if equals else None
        elif directive == "conf":
            configuration[key] = rest
        else:
            meant = closest(directive, _DIRECTIVES, likeness=0.7)
            if meant is not None:
                problem = f"unknown comment '-- {directive}:' at the head of the script"
                faults.append(str(Fault(place, problem, f"did you mean '-- {meant}:'?")))
    if faults:
        raise InvalidJobGraph(faults)
    return JobDraft(
        name=name,
        vertices=(ScriptDraft(name=SCRIPT_VERTEX, statements=tuple(statements)),),
        parameters=parameters,
        configuration=configuration,
    )


def _header(script: str) -> Iterator[tuple[int, str, str]]:
    """Comments of the form `-- word: value` before the first statement, with their lines."""
    for token in tokens(script):
        if token.is_code:
            return
        match = _DIRECTIVE.fullmatch(token.text.rstrip())
        if token.kind is Kind.COMMENT and match is not None:
            yield line_of(script, token.start), match.group(1).lower(), match.group(2)


def _depth_of_blocks(statement: list[Token]) -> int:
    words = [token.word for token in statement if token.is_code]
    texts = [token.text for token in statement if token.is_code]
    first = 2 if len(texts) > 2 and texts[1] == ":" else 0
    if len(words) <= first or words[first] != "BEGIN":
        return 0
    depth = 0
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        if word == "BEGIN" or (word == "CASE" and before != "END"):
            depth += 1
        elif word == "END" and after not in _LOOPS:
            depth -= 1
    return depth


def _stripped(statement: list[Token]) -> str:
    """Without the space and comments around it; empty when there is nothing else."""
    code = [index for index, token in enumerate(statement) if token.is_code]
    if not code:
        return ""
    return "".join(token.text for token in statement[code[0] : code[-1] + 1])

"""`stoker token`: the tokens that may call the REST API of a cluster."""

import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, moment_text, stdout_table
from stoker.core.durations import DurationTooLong, read_duration
from stoker.core.errors import InvalidOption
from stoker.security.options import RestSecurityOptions
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of

_SECRET_BYTES = 32
_NEVER = "never"
_LONGEST = timedelta(days=36_500)
"""Dates much later than this cannot be displayed."""

_limit_options = [
    click.option(
        "--queue",
        "queues",
        multiple=True,
        metavar="NAME",
        help="Queue that its jobs may use, and no other; can be given several times, * for all.",
    ),
    click.option("--max-priority", type=int, help="Highest priority of its jobs."),
    click.option(
        "--max-jobs",
        type=click.IntRange(min=0),
        help="How many of its jobs may run or wait at the same time.",
    ),
    click.option(
        "--max-submissions",
        type=click.IntRange(min=0),
        help="How many of its jobs are accepted in a minute.",
    ),
]


def _limits(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options of limits, whose defaults are those of the role."""
    for each in reversed(_limit_options):
        command = each(command)
    return command


_file_option = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="File of tokens; by default the one in the option security.rest.tokens.",
)


@click.group()
def token() -> None:
    """Create, limit, list and revoke the tokens that may call the REST API.

    They are kept as hashes in a file that all masters read (option security.rest.tokens); a change
    takes effect at once. A client sends its token from the option client.token or
    $STOKER_CLIENT_TOKEN.

    Example: stoker token create nightly --role submit --expires 90d
    """


@token.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="read: no changes; submit: submit jobs, see and end one's own; operate: everything.",
)
@click.option(
    "--expires",
    metavar="DURATION",
    default="90d",
    show_default=True,
    help="How long the token is valid, such as 90d or 12h, or never for one without an end.",
)
@_limits
@_file_option
@shared_options
def create(
    invocation: Invocation,
    name: str,
    role: str,
    expires: str,
    path: Path | None,
    queues: tuple[str, ...],
    max_priority: int | None,
    max_jobs: int | None,
    max_submissions: int | None,
) -> int:
    """Create a token and print it. It cannot be printed again.

    The jobs of a token can do all that the user of the cluster can do: submit keeps honest users
    apart, not attackers.

    Example: stoker token create ana --role submit --queue adhoc --max-jobs 10
    """
    now = _now_ms()
    token_id = secrets.token_hex(4)
    text = text_of(token_id, secrets.token_urlsafe(_SECRET_BYTES))
    made = Token(
        id=token_id,
        name=name,
        role=Role(role),
        sha256=hash_of(text),
        created_ms=now,
        expires_ms=None if expires == _NEVER else now + _milliseconds(expires),
        limits=SubmissionLimits(
            queues=queues,
            max_priority=max_priority,
            max_jobs=max_jobs,
            max_submissions=max_submissions,
        ),
    )
    file = _file(invocation, path)
    file.add(made)
    if invocation.json:
        echo_json({"id": token_id, "name": name, "role": role, "token": text})
    else:
        click.echo(text)
        click.echo("Store it now: only a hash of it is kept.", err=True)
    return OK


@token.command()
@click.argument("token")
@_limits
@click.option("--clear", is_flag=True, help="Remove the limits that the token has so far.")
@_file_option
@shared_options
def limit(
    invocation: Invocation,
    token: str,
    clear: bool,
    path: Path | None,
    queues: tuple[str, ...],
    max_priority: int | None,
    max_jobs: int | None,
    max_submissions: int | None,
) -> int:
    """Change what a token, named by its id or name, may submit. Takes effect at once.

    A limit that the command does not name stays. Where a token has no limit of its own, the limits
    of its role apply (options security.rest.limits.*).

    Example: stoker token limit ana --max-jobs 20
    """
    wanted = SubmissionLimits(
        queues=queues,
        max_priority=max_priority,
        max_jobs=max_jobs,
        max_submissions=max_submissions,
    )
    if wanted == NO_LIMITS and not clear:
        raise click.UsageError("name a limit, such as --max-jobs 20, or --clear to remove all")
    changed = _file(invocation, path).limit(
        token, lambda present: wanted.or_else(NO_LIMITS if clear else present)
    )
    if invocation.json:
        echo_json(_public(changed))
    else:
        click.echo(f"The token {changed.name} has {_limits_text(changed)}.")
    return OK


@token.command("list")
@_file_option
@shared_options
def list_tokens(invocation: Invocation, path: Path | None) -> int:
    """List the names, roles, dates and limits of tokens, not the tokens themselves.

    Example: stoker token list --json
    """
    tokens = _file(invocation, path).tokens
    if invocation.json:
        echo_json([_public(each) for each in tokens])
    elif tokens:
        rows = [
            (
                each.id,
                each.name,
                each.role,
                moment_text(each.created_ms),
                _expiry(each, _now_ms()),
                str(each.limits) or "-",
            )
            for each in tokens
        ]
        head = ("ID", "NAME", "ROLE", "CREATED", "EXPIRES", "LIMITS")
        click.echo(stdout_table(head, rows, shorten=(1,)))
    else:
        click.echo("There are no tokens.")
    return OK


@token.command()
@click.argument("token")
@_file_option
@shared_options
def revoke(invocation: Invocation, token: str, path: Path | None) -> int:
    """Revoke a token by its id or name: its next call is refused.

    Example: stoker token revoke nightly
    """
    gone = _file(invocation, path).revoke(token)
    if invocation.json:
        echo_json(_public(gone))
    else:
        click.echo(f"Revoked the token {gone.name} ({gone.id}).")
    return OK


def _file(invocation: Invocation, path: Path | None) -> TokenFile:
    chosen = path or invocation.configuration().of(RestSecurityOptions).tokens
    if chosen is None:
        raise InvalidOption(
            "no file of tokens is configured; set security.rest.tokens in the configuration of the "
            "masters (--config FILE), or name the file with --file PATH"
        )
    return TokenFile(chosen.expanduser())


def _milliseconds(duration: str) -> int:
    try:
        parsed = read_duration(duration)
    except DurationTooLong:
        parsed = timedelta.max
    except ValueError as error:
        raise InvalidOption(
            f"--expires {duration} is not a duration; write 90d, 12h, 30min or never"
        ) from error
    if parsed <= timedelta(0):
        raise InvalidOption(f"--expires {duration}: a token must be valid for some time")
    if parsed > _LONGEST:
        raise InvalidOption(
            f"--expires {duration} is more than {_LONGEST.days} days; give --expires never for "
            "a token that never expires"
        )
    return parsed // timedelta(milliseconds=1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _expiry(token: Token, now_ms: int) -> str:
    if token.expires_ms is None:
        return "never"
    return moment_text(token.expires_ms) + (" (expired)" if token.is_expired(now_ms) else "")


def _limits_text(token: Token) -> str:
    return f"these limits: {token.limits}" if str(token.limits) else "no limits of its own"


def _public(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role.value,
        "created": token.created_ms,
        "expires": token.expires_ms,
        "limits": {
            "queues": list(token.limits.queues),
            "max-priority": token.limits.max_priority,
            "max-jobs": token.limits.max_jobs,
            "max-submissions": token.limits.max_submissions,
        },
    }

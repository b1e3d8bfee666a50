"""What can be set about access: tokens for REST, TLS for REST and between processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option
from stoker.security.submission_limits import SubmissionLimits
from stoker.security.tokens import Permission, Role, allows

_IDENTITIES = "security.ssl.rest.identities"


@dataclass(frozen=True, kw_only=True)
class RestSecurityOptions:
    """Access to the REST server."""

    tokens: Path | None = option(
        "security.rest.tokens",
        "File of the tokens that may call the REST API, made by `stoker token create`; all masters "
        "need the same. Unset: whoever reaches the port may call.",
        None,
    )
    allow_plain_tokens: bool = option(
        "security.rest.allow-plain-tokens",
        "Whether tokens may be used without TLS beyond this machine, because a proxy in front of "
        "the masters does TLS. Standbys then also forward to a leader elsewhere without TLS.",
        False,
    )
    tls: bool = option("security.ssl.rest.enabled", "Serve REST over TLS only.", False)
    certificate: Path | None = option(
        "security.ssl.rest.certificate",
        "Certificate of the REST server with its chain, as PEM.",
        None,
    )
    key: Path | None = option("security.ssl.rest.key", "Private key of that certificate.", None)
    authorities: Path | None = option(
        "security.ssl.rest.authorities",
        "Certificates of the authorities that sign for REST, as PEM. A master uses them to check "
        "other masters, and clients if these must show a certificate. Unset: the authorities that "
        "the system trusts.",
        None,
    )
    mutual: bool = option(
        "security.ssl.rest.authentication-enabled",
        "Whether clients of REST must show a certificate signed by security.ssl.rest.authorities.",
        False,
    )
    identities: dict[str, str] = option(
        _IDENTITIES,
        "Common name of a client's certificate, and the role of its holder, who owns jobs under "
        "this name, such as ana:submit. Holders of other certificates then need a token. Unset: "
        "every certificate is good for everything, unless there are tokens.",
        {},
    )

    def __post_init__(self) -> None:
        for name, role in self.identities.items():
            if role not in list(Role):
                raise InvalidOption(
                    f"{_IDENTITIES} gives {name} the role {role!r}; write one of {', '.join(Role)}",
                    key=_IDENTITIES,
                )
        if self.identities and not self.mutual:
            raise InvalidOption(
                f"{_IDENTITIES} needs security.ssl.rest.authentication-enabled: without it, nobody "
                "shows a certificate",
                key=_IDENTITIES,
            )

    def roles_of_certificates(self) -> dict[str, Role]:
        return {name: Role(role) for name, role in self.identities.items()}


_QUEUES = "security.rest.limits.queues"
_MAX_PRIORITY = "security.rest.limits.max-priority"
_MAX_JOBS = "security.rest.limits.max-jobs"
_MAX_SUBMISSIONS = "security.rest.limits.max-submissions"


@dataclass(frozen=True, kw_only=True)
class SubmissionLimitOptions:
    """What the tokens of a role may submit, where a token has no limit of its own."""

    queues: dict[str, str] = option(
        _QUEUES,
        "Role of tokens, and the queues that its jobs may use, separated by spaces, such as "
        "submit:adhoc nightly; * allows every queue. A token can have queues of its own "
        "(stoker token limit).",
        {},
    )
    max_priority: dict[str, str] = option(
        _MAX_PRIORITY, "Role of tokens, and the highest priority of its jobs.", {}
    )
    max_jobs: dict[str, str] = option(
        _MAX_JOBS,
        "Role of tokens, and how many jobs each of its tokens may have that have not ended, "
        "whether they run or wait.",
        {},
    )
    max_submissions: dict[str, str] = option(
        _MAX_SUBMISSIONS,
        "Role of tokens, and how many jobs of each of its tokens are accepted in a minute.",
        {},
    )

    def __post_init__(self) -> None:
        for key, limits in (
            (_QUEUES, self.queues),
            (_MAX_PRIORITY, self.max_priority),
            (_MAX_JOBS, self.max_jobs),
            (_MAX_SUBMISSIONS, self.max_submissions),
        ):
            for role, text in limits.items():
                _check_role(key, role)
                _LIMIT_CHECKS[key](key, role, text)

    def by_role(self) -> dict[Role, SubmissionLimits]:
        return {role: self._of(role) for role in Role if allows(role, Permission.SUBMIT)}

    def _of(self, role: Role) -> SubmissionLimits:
        return SubmissionLimits(
            queues=tuple(self.queues.get(role, "").split()),
            max_priority=_number(self.max_priority, role),
            max_jobs=_number(self.max_jobs, role),
            max_submissions=_number(self.max_submissions, role),
        )


def _check_role(key: str, role: str) -> None:
    roles = [each.value for each in Role if allows(each, Permission.SUBMIT)]
    if role not in roles:
        raise InvalidOption(
            f"{key} names the role {role!r}; tokens that submit jobs have the role "
            f"{' or '.join(roles)}",
            key=key,
        )


def _check_queues(key: str, role: str, text: str) -> None:
    if not text.split():
        raise InvalidOption(f"{key} of role {role} names no queue; write * for all", key=key)


def _check_integer(key: str, role: str, text: str) -> None:
    if not text.removeprefix("-").isdecimal():
        raise InvalidOption(f"{key} of role {role} is {text!r}; write a whole number", key=key)


def _check_count(key: str, role: str, text: str) -> None:
    if not text.isdecimal():
        raise InvalidOption(
            f"{key} of role {role} is {text!r}; write a whole number from 0 up", key=key
        )


_LIMIT_CHECKS: Mapping[str, Callable[[str, str, str], None]] = {
    _QUEUES: _check_queues,
    _MAX_PRIORITY: _check_integer,
    _MAX_JOBS: _check_count,
    _MAX_SUBMISSIONS: _check_count,
}


def _number(limits: dict[str, str], role: Role) -> int | None:
    return int(limits[role]) if role in limits else None


@dataclass(frozen=True, kw_only=True)
class InternalSecurityOptions:
    """Access between masters and task executors."""

    tls: bool = option(
        "security.ssl.internal.enabled",
        "Mutual TLS between the processes of the cluster: each must show a certificate.",
        False,
    )
    certificate: Path | None = option(
        "security.ssl.internal.certificate",
        "Certificate of this process with its chain, as PEM; it must name the hosts on which it is "
        "used.",
        None,
    )
    key: Path | None = option("security.ssl.internal.key", "Private key of that certificate.", None)
    authorities: Path | None = option(
        "security.ssl.internal.authorities",
        "Certificates of the authorities that sign for the processes of this cluster, as PEM.",
        None,
    )
    secret: Path | None = option(
        "security.internal.secret-file",
        "File with the secret by which the processes of a cluster on one machine know each other; "
        "the first process makes it. Unset: cluster-secret in high-availability.storageDir, or in "
        "~/.stoker if the storage is not a directory. Not used with security.ssl.internal.enabled.",
        None,
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The log of changes and refusals."""

    file: Path | None = option(
        "security.audit.file",
        "File with one line of JSON for each change that a caller of a master asked for, and for "
        "each refusal; unset: audit/audit.jsonl in the working directory.",
        None,
    )
    max_size: ByteSize = option(
        "security.audit.max-size",
        "Size at which the audit log is rotated.",
        ByteSize(10 * 1024 * 1024),
    )
    max_files: int = option(
        "security.audit.max-files",
        "Number of files that are kept of the audit log; the oldest is deleted.",
        10,
    )

    def __post_init__(self) -> None:
        for key, value in (
            ("security.audit.max-size", self.max_size),
            ("security.audit.max-files", self.max_files),
        ):
            if value < 1:
                raise InvalidOption(f"{key} is {value}; set it to 1 or more", key=key)

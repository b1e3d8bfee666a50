"""Who may use a savepoint: start from it, look into it, dispose of it.

Whoever starts a job from a savepoint reads the state of the job that it was taken of. So a caller
who sees only its own jobs may use only savepoints of these, however the path came into the request:
a job that continues the output of an ended one starts from a savepoint too.
"""

from dataclasses import dataclass

from stoker.core.errors import Forbidden
from stoker.savepoints.options import USE_WITHOUT_OWNER


@dataclass(frozen=True, kw_only=True)
class SavepointAccess:
    owner: str | None = None
    """The owner whose savepoints alone the caller may use; None for those of all owners."""
    without_owner: bool = False
    """Whether the caller may use those that name no owner."""

    def allows(self, owner: str) -> bool:
        """Pure. Whether the caller may use a savepoint of this owner; empty if it names none."""
        if self.owner is None or self.owner == owner:
            return True
        return not owner and self.without_owner

    def check(self, url: str, owner: str) -> None:
        """Raise Forbidden for the savepoint at `url`, which belongs to `owner`."""
        if self.allows(owner):
            return
        if owner:
            raise Forbidden(
                f"the savepoint {url} belongs to {owner}, and {self.owner} may use its own only; "
                f"ask {owner}, or somebody whose token has the role operate",
                path=url,
            )
        raise Forbidden(
            f"the savepoint {url} names no owner, so only a token with the role operate may use "
            f"it; an operator allows it to all with {USE_WITHOUT_OWNER}",
            path=url,
        )


ALL_SAVEPOINTS = SavepointAccess()

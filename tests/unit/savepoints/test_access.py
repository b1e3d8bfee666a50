"""Who may use which savepoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import Forbidden
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess

names = st.sampled_from(["", "ana", "bob"])


@given(names.filter(bool), names, st.booleans())
def test_one_uses_ones_own_savepoints_and_others_only_if_they_name_no_owner(
    caller: str, owner: str, without_owner: bool
) -> None:
    access = SavepointAccess(owner=caller, without_owner=without_owner)
    allowed = owner == caller or (not owner and without_owner)
    assert access.allows(owner) == allowed
    if allowed:
        access.check("/saved/one", owner)
    else:
        with pytest.raises(Forbidden, match=r"/saved/one .* the role operate") as refused:
            access.check("/saved/one", owner)
        assert (not owner) == ("savepoint.use-without-owner" in refused.value.message)


@given(names)
def test_who_sees_all_jobs_uses_all_savepoints(owner: str) -> None:
    assert ALL_SAVEPOINTS.allows(owner)

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import JobId, RegionId
from stoker.ha import keys
from stoker.ha.transaction import checked_key

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names)
def test_any_region_name_gives_a_valid_key_of_one_part(name: str):
    key = keys.attempt(JobId("a" * 32), RegionId(name))
    assert checked_key(key).count("/") == 2


@given(names, names)
def test_no_two_region_names_give_the_same_key(one: str, other: str):
    assert (keys.part(one) == keys.part(other)) == (one == other)

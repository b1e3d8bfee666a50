import math
from datetime import timedelta

import pytest

from stoker.core.errors import InvalidOption
from stoker.gateways.leases import LeaseOptions


def test_a_margin_that_leaves_attempts_too_little_of_their_lease_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"task\.lease\.margin \(5 s\).*duration \(10 s\)"):
        LeaseOptions(duration=timedelta(seconds=10))


def test_a_session_timeout_must_fit_into_half_a_lease() -> None:
    lease = LeaseOptions()
    for seconds in (4, 25, math.inf):
        lease.check_session_timeout(seconds)
    with pytest.raises(InvalidOption, match=r"session timeout of 40 s .* at most 25 s"):
        lease.check_session_timeout(40)

import pytest

from stoker.core.errors import InvalidOption
from stoker.security.binding import check_binding


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_the_loopback_needs_no_authentication(address: str) -> None:
    check_binding(address, "rest.bind-address", authenticated=False)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])
def test_every_other_address_needs_authentication(address: str) -> None:
    with pytest.raises(InvalidOption, match=r"jobmanager\.bind-host .* not authenticated"):
        check_binding(address, "jobmanager.bind-host", authenticated=False)
    check_binding(address, "jobmanager.bind-host", authenticated=True)

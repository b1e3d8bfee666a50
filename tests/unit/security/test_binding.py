import pytest

from stoker.core.errors import InvalidOption
from stoker.security.binding import advertised_host, check_binding, check_token_transport


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_the_loopback_needs_no_authentication(address: str) -> None:
    check_binding(address, "rest.bind-address", authenticated=False)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])
def test_every_other_address_needs_authentication(address: str) -> None:
    with pytest.raises(InvalidOption, match=r"jobmanager\.bind-host .* not authenticated"):
        check_binding(address, "jobmanager.bind-host", authenticated=False)
    check_binding(address, "jobmanager.bind-host", authenticated=True)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", ""])
def test_an_address_for_all_interfaces_is_never_published(bind: str) -> None:
    """The leader would be published at an address that leads each standby to itself."""
    with pytest.raises(InvalidOption, match=r"rest\.bind-address .* set rest\.address to the name"):
        advertised_host(bind, "rest.bind-address", None, "rest.address")
    with pytest.raises(InvalidOption, match=r"^rest\.address 0\.0\.0\.0 stands for all"):
        advertised_host(bind, "rest.bind-address", "0.0.0.0", "rest.address")
    host = advertised_host(bind, "rest.bind-address", "stoker.example.org", "rest.address")
    assert host == "stoker.example.org"


@pytest.mark.parametrize("bind", ["127.0.0.1", "::1", "stoker.example.org"])
def test_the_bind_address_is_published_unless_another_is_set(bind: str) -> None:
    assert advertised_host(bind, "rest.bind-address", None, "rest.address") == bind
    assert advertised_host(bind, "rest.bind-address", "proxy", "rest.address") == "proxy"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_tokens_do_not_cross_a_network_in_clear_text(address: str) -> None:
    with pytest.raises(InvalidOption, match=r"clear text.*ssl\.rest\.enabled.*allow-plain-tokens"):
        check_token_transport(address, "rest.bind-address", is_protected=False)
    check_token_transport(address, "rest.bind-address", is_protected=True)
    check_token_transport("127.0.0.1", "rest.bind-address", is_protected=False)

"""What each role may do."""

import pytest

from stoker.security.tokens import Permission, Role, allows


@pytest.mark.parametrize(
    ("permission", "read", "submit"),
    [
        (Permission.OPEN, True, True),
        (Permission.QUERY, True, True),
        (Permission.READ, True, False),
        (Permission.SUBMIT, False, True),
        (Permission.CONTROL, False, True),
        (Permission.OPERATE, False, False),
    ],
)
def test_a_role_allows_no_more_than_it_says(
    permission: Permission, read: bool, submit: bool
) -> None:
    assert allows(Role.READ, permission) is read
    assert allows(Role.SUBMIT, permission) is submit
    assert allows(Role.OPERATE, permission)

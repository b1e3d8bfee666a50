"""Sessions of the web page: who can make one, and when it ends."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.security.page_sessions import LIFETIME_MS, PageSession, SessionKey, begin_session
from stoker.security.tokens import Role, Token

KEY = SessionKey(b"k" * 32)
NOW = 1_800_000_000_000
TOKEN = Token(id="0a1b2c3d", name="ana", role=Role.READ, sha256="", created_ms=0)


def test_a_cookie_is_read_by_every_master_with_the_key_until_it_ends() -> None:
    session = begin_session(TOKEN, NOW)
    cookie = KEY.sign(session)
    assert SessionKey(b"k" * 32).read(cookie, NOW) == session
    assert KEY.read(cookie, NOW + LIFETIME_MS - 1) == session
    assert KEY.read(cookie, NOW + LIFETIME_MS) is None


def test_a_session_never_outlives_its_token() -> None:
    assert begin_session(TOKEN, NOW).until == NOW + LIFETIME_MS
    expiring = msgspec.structs.replace(TOKEN, expires_ms=NOW + 1000)
    assert begin_session(expiring, NOW).until == NOW + 1000


def test_another_key_signs_nothing_that_this_cluster_accepts() -> None:
    session = begin_session(TOKEN, NOW)
    assert KEY.read(SessionKey(b"other").sign(session), NOW) is None
    assert KEY.cookie_name(is_secure=False) != SessionKey(b"other").cookie_name(is_secure=False)


def test_what_is_printed_of_a_key_does_not_tell_it() -> None:
    assert "kkk" not in repr(KEY)


@given(st.integers(0, 200), st.characters(codec="utf-8"))
def test_a_cookie_that_was_changed_is_worthless(place: int, letter: str) -> None:
    cookie = KEY.sign(begin_session(TOKEN, NOW))
    place %= len(cookie)
    changed = cookie[:place] + letter + cookie[place + 1 :]
    if changed != cookie:
        assert KEY.read(changed, NOW) is None


@given(st.text(max_size=200))
def test_no_text_is_too_strange_to_be_refused(text: str) -> None:
    assert KEY.read(text, NOW) is None


def test_the_end_cannot_be_moved() -> None:
    session = begin_session(TOKEN, NOW)
    later = KEY.sign(PageSession(token_id=session.token_id, until=session.until + 1))
    forged = f"{later.rsplit('.', 1)[0]}.{KEY.sign(session).rsplit('.', 1)[1]}"
    assert KEY.read(forged, NOW) is None

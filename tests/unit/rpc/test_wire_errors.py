import builtins

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core import errors
from stoker.core.errors import DuplicateJob, NotFound, RemoteError, StokerError
from stoker.core.values import Value
from stoker.rpc.wire import EncodedError, describe, restore


def cross(error):
    encoded = msgspec.msgpack.encode(describe(error))
    return restore(msgspec.msgpack.decode(encoded, type=EncodedError))


TREE = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StokerError)
]
texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=5,
)


@given(st.sampled_from(TREE), texts, st.dictionaries(texts, plain))
def test_every_error_of_the_tree_keeps_type_message_and_facts(kind, message, facts):
    """Callers can handle the error as if it had been raised locally (RPC-07)."""
    error = kind.__new__(kind)
    StokerError.__init__(error, message, **facts)
    arrived = cross(error)
    assert type(arrived) is kind
    assert (str(arrived), arrived.facts) == (message, facts)


def test_facts_that_cannot_be_encoded_arrive_as_text():
    class Shape(Value):
        x: int

    class Opaque:
        def __str__(self):
            return "opaque"

    arrived = cross(StokerError("m", shape=Shape(x=1), many=(1, 2), opaque=Opaque()))
    assert arrived.facts == {"shape": {"x": 1}, "many": [1, 2], "opaque": "opaque"}


def test_an_error_with_its_own_constructor_arrives():
    arrived = cross(DuplicateJob("j", globally_terminated=True))
    assert type(arrived) is DuplicateJob
    assert arrived.facts["globally_terminated"] is True


def test_an_error_of_an_unknown_kind_arrives_as_its_nearest_known_ancestor():
    failure = EncodedError(kinds=("FromTheFuture", "NotFound", "StokerError"), message="m")
    assert type(restore(failure)) is NotFound


BUILT_IN = [
    ValueError("v", 1),
    KeyError("k"),
    ZeroDivisionError(),
    TimeoutError("t"),
    PermissionError(13, "denied", "/x"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
]


@pytest.mark.parametrize("error", BUILT_IN, ids=lambda error: type(error).__name__)
def test_built_in_errors_keep_type_and_message(error):
    """For example ValueError and TimeoutError (RPC-07)."""
    arrived = cross(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


@pytest.mark.parametrize(
    "error", [StopIteration(1), ExceptionGroup("g", [ValueError("v")]), msgspec.DecodeError("d")]
)
def test_errors_that_cannot_be_rebuilt_arrive_as_remote_errors(error):
    arrived = cross(error)
    assert type(arrived) is RemoteError
    assert type(error).__name__ in arrived.facts["type"]


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "print", "NoSuchThing"])
def test_a_peer_can_only_make_the_caller_raise_errors(name):
    assert name == "NoSuchThing" or hasattr(builtins, name)
    arrived = restore(EncodedError(kinds=(name,), message="m", arguments=()))
    assert type(arrived) is RemoteError

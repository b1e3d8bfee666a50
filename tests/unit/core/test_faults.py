"""Suggestions for a mistyped word."""

from stoker.core.faults import did_you_mean

SHAPES = ("circle", "square")


def test_a_near_word_is_suggested_whatever_its_case() -> None:
    assert did_you_mean("Cirle", SHAPES) == "did you mean 'circle'?"
    assert did_you_mean("Cirle", SHAPES, "see the list") == "did you mean 'circle'?"


def test_without_a_near_word_the_given_remedy_or_every_known_word_is_told() -> None:
    assert did_you_mean("x", SHAPES, "see the list") == "see the list"
    assert did_you_mean("x", reversed(SHAPES)) == "known are: circle, square"
    assert did_you_mean("x", ()) == "there are none"

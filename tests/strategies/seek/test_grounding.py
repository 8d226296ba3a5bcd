"""The check that a verdict's words were found: what it lets pass, and what it catches."""

from __future__ import annotations

import pytest

from viper.strategies.seek.grounding import is_grounded

PASSES = [
    # the paper's own examples
    ("carotene", "High Confidence Response: carotenoids."),
    ("Martina Bergman-Osterberg", "In 1893, Martina Bergman-österberg introduced it"),
    ("6.54 - 6.86", "a diameter of 2.575-2.7 inches (6.54-6.86 cm)"),
    ("Venta River Basin", "e.g. Venta River Basin District"),
    # other forms of a word
    ("butterflies", "a butterfly"),
    ("running shoe", "shoes to run in"),
    ("city", "the cities of Peru"),
    ("Picasso", "Picasso's tower"),
    ("the TARNIX was founded", "Tarnix was founded"),
    # abbreviations, both ways
    ("United States", "made in the U.S. in 1941"),
    ("United States", "a US company"),
    ("US", "born in the United States"),
    ("U.S.", "of the United States."),
    ("Saint Petersburg", "St. Petersburg"),
    ("Mount Everest", "Mt. Everest"),
    ("Los Angeles", "near L.A."),
    ("13968 km", "13,968 kilometres"),
    ("World War II", "since WWII"),
    ("National Aeronautics and Space Administration", "a NASA probe"),
    ("NASA", "The National Aeronautics and Space Administration"),
    # numbers
    ("26", "it has twenty-six lifts"),
    ("twenty-six", "26 elevators; 18 serve offices"),
    ("126", "one hundred and twenty-six"),
    ("300,000", "three hundred thousand"),
    ("1,893", "in 1893"),
    ("nineteenth century", "the 19th century"),
    ("19", "the 19th floor"),
    ("2 million", "two million people"),
    ("two million", "2 million people"),
    ("1.5 million", "1,500,000"),
    # signs are in capitals
    ("Mt Rainier", "MT RAINIER"),
    ("DR PEPPER", "Dr Pepper"),
    ("Feb 2", "FEB 2"),
    ("", "x"),
]
CAUGHT = [
    ("1765", "Tarnix was founded in 1893"),
    ("1893 by nobody", "founded in 1893"),
    # numbers within numbers
    ("26", "126 elevators"),
    ("126", "26 elevators"),
    ("26", "one hundred and twenty-six"),
    ("six", "twenty-six"),
    ("20", "twenty-six"),
    ("18", "1893"),
    ("2 million", "2 people"),
    ("2.5", "25"),
    ("first", "one of them"),
    # an abbreviation that is another word in small letters
    ("US", "it tells us more"),
    ("United States", "it tells us more"),
    ("IT", "it is here"),
    ("WHO", "who is it?"),
    # long forms of other abbreviations
    ("United States", "the USSR"),
    ("World War II", "during WWI"),
    ("National Air Authority", "a NASA probe"),
    # words that begin or end alike
    ("Niger", "the Nigeria river"),
    ("Nigeria", "the Niger"),
    ("Roman", "Romania"),
    ("Austria", "Australia"),
    ("Alexander", "Alexandria"),
    ("Victor", "Victoria"),
    ("Georgia", "George"),
    ("France", "a franc"),
    ("franc", "France"),
    ("Marin", "Marine"),
    ("Dominic", "the Dominican order"),
    ("university", "the universe"),
    ("organ", "an organization"),
    ("police", "a policy"),
    ("car", "a carpet"),
    ("South Korea", "North Korea"),
]


@pytest.mark.parametrize(("extracted", "found"), PASSES)
def test_another_form_of_what_was_found_passes(extracted: str, found: str) -> None:
    assert is_grounded(extracted, ["something else", found])


@pytest.mark.parametrize(("extracted", "found"), CAUGHT)
def test_what_was_not_found_is_caught(extracted: str, found: str) -> None:
    assert not is_grounded(extracted, ["something else", found])


@pytest.mark.parametrize(
    ("extracted", "grounded"),
    [
        ("1893", True),
        ("founded in 1893", True),
        ("the TARNIX was founded", True),
        ("18", False),
        ("1,893", True),
        ("1893 by nobody", False),
        ("eighteen", False),
        ("Tarnixes", False),
        ("", True),
    ],
)
def test_exact_wants_the_words_as_they_stand(extracted: str, grounded: bool) -> None:
    assert is_grounded(extracted, ["Tarnix was founded in 1,893.", "x"], "exact") == grounded


def test_off_takes_any_text() -> None:
    assert is_grounded("1765", ["Tarnix was founded in 1893."], "off")


def test_hostile_texts_add_no_words() -> None:
    long = ["US " * 2_000, "A." * 2_000, "Aa of the Bb " * 500, "twenty " * 1_000, "é" * 9_000]
    assert not is_grounded("Zanzibar " * 50 + "U.S.", long)
    assert not is_grounded("\x00\ud800 Zanzibar", long)

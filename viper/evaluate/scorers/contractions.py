"""English contractions, and how annotators misspell them."""

from __future__ import annotations

_PROPER = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't
haven't he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't
mightn't've must've mustn't needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've
shouldn't shouldn't've somebody'd somebody'd've somebody'll somebody's someone'd someone'd've
someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll
what're what's what've when's where'd where's where've who'd who'd've who'll who's who've why'll
why're why's won't would've wouldn't wouldn't've y'all y'all'd've y'all'll you'd you'd've you'll
you're you've
"""


def _misspelled(proper: str) -> set[str]:
    """The word with one of its apostrophes left out."""
    places = [index for index, letter in enumerate(proper) if letter == "'"]
    return {proper[:index] + proper[index + 1 :] for index in places}


CONTRACTIONS = {wrong: proper for proper in _PROPER.split() for wrong in _misspelled(proper)}
"""Misspelling to proper form.

Source: the VQA challenge's list. Those whose misspelling is a word of its own (its, were, shed,
well, ill) are not in it; neither are those with I, which its code never reaches, comparing
capitals with lower case.
"""

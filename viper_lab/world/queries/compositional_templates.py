"""The wordings of compositional questions."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

TEMPLATES: Mapping[str, Templates] = {
    "attribute": Templates(
        (
            "what {attr} is {np}?",
            "what is the {attr} of {np}?",
            "tell me the {attr} of {np}",
            "which {attr} does {np} have?",
            "the {attr} of {np}?",
            "name the {attr} of {np}",
            "what {attr} does {np} have?",
            "can you tell me the {attr} of {np}?",
        ),
        (
            "which {attr} is {np}?",
            "can you name the {attr} of {np}?",
            "tell me what {attr} {np} is",
            "tell me which {attr} {np} has",
        ),
        (
            "which {attr} has {np}?",
            "of which {attr} is {np}?",
            "do tell me the {attr} of {np}",
            "i want to know the {attr} of {np}",
            "i want to know what {attr} {np} has",
            "can you tell me what {attr} {np} has?",
            "give me the {attr} of {np}",
            "{np} what {attr} is it?",
            "{np} has which {attr}?",
            "say which {attr} {np} is",
            "say what {attr} {np} has",
        ),
    ),
    "material": Templates(
        ("what is {np} made of?", "of what is {np} made?", "tell me what {np} is made of"),
        ("can you tell me what {np} is made of?",),
        (
            "what material is {np} made of?",
            "can you say what {np} is made of?",
            "i want to know what {np} is made of",
            "{np} what is it made of?",
            "say what {np} is made of",
        ),
    ),
    "choose": Templates(
        (
            "is {np} {p} or {q}?",
            "tell me if {np} is {p} or {q}",
            "{p} or {q} what is {np}?",
            "what is {np} {p} or {q}?",
        ),
        ("can you tell me if {np} is {p} or {q}?", "tell me what {np} is {p} or {q}"),
        (
            "can you say if {np} is {p} or {q}?",
            "{np} is it {p} or {q}?",
            "{p} or {q} which is {np}?",
            "i want to know if {np} is {p} or {q}",
            "say if {np} is {p} or {q}",
            "which is {np} {p} or {q}?",
        ),
    ),
    "verify": Templates(
        (
            "is {np} {p}?",
            "tell me if {np} is {p}",
            "is it true that {np} is {p}?",
            "yes or no is {np} {p}?",
        ),
        ("can you tell me if {np} is {p}?", "tell me yes or no is {np} {p}?"),
        (
            "can you say if {np} is {p}?",
            "{np} is it {p}?",
            "i want to know if {np} is {p}",
            "say yes or no is {np} {p}?",
            "is {np} {p} yes or no?",
            "say if {np} is {p}",
        ),
    ),
    "count": Templates(
        (
            "how many {ks} are there?",
            "count the {ks}",
            "what is the number of {ks}?",
            "how many {ks} do you see?",
            "tell me how many {ks} there are",
            "the number of {ks}?",
        ),
        ("tell me the number of {ks}", "count the {ks} you see", "can you count the {ks}?"),
        (
            "what number of {ks} do you see?",
            "can you tell me how many {ks} there are?",
            "please count the {ks}",
            "how many {ks} are in the picture?",
            "say how many {ks} there are",
            "count all the {ks}",
            "i want to know the number of {ks}",
            "can you tell me the number of {ks}?",
        ),
    ),
    "count_region": Templates(
        (
            "how many {ks} are {rel} {a}?",
            "count the {ks} {rel} {a}",
            "what is the number of {ks} {rel} {a}?",
            "how many {ks} do you see {rel} {a}?",
        ),
        ("tell me how many {ks} are {rel} {a}", "the number of {ks} {rel} {a}?"),
        (
            "can you tell me how many {ks} are {rel} {a}?",
            "how many {ks} are there {rel} {a}?",
            "{rel} {a} how many {ks} are there?",
            "please count the {ks} {rel} {a}",
            "say how many {ks} are {rel} {a}",
            "what number of {ks} are {rel} {a}?",
            "i want to know the number of {ks} {rel} {a}",
            "count the {ks} that are {rel} {a}",
        ),
    ),
    "count_filter": Templates(
        (
            "how many {ks} are {p}?",
            "count the {ks} that are {p}",
            "how many of the {ks} are {p}?",
            "what is the number of {ks} that are {p}?",
        ),
        ("tell me how many {ks} are {p}", "how many {ks} do you see that are {p}?"),
        (
            "can you tell me how many {ks} are {p}?",
            "how many {ks} which are {p} do you see?",
            "please count the {ks} that are {p}",
            "of the {ks} how many are {p}?",
            "say how many {ks} are {p}",
            "count all the {ks} that are {p}",
            "i want to know how many of the {ks} are {p}",
        ),
    ),
    "count_sum": Templates(
        (
            "how many {ks} and {os} are there?",
            "count the {ks} and {os}",
            "what is the number of {ks} and {os}?",
            "how many {ks} and {os} do you see?",
        ),
        ("tell me how many {ks} and {os} there are", "the number of {ks} and {os}?"),
        (
            "can you tell me how many {ks} and {os} there are?",
            "please count the {ks} and {os}",
            "say how many {ks} and {os} there are",
            "i want to know the number of {ks} and {os}",
            "how many {ks} and {os} are in the picture?",
            "what number of {ks} and {os} do you see?",
        ),
    ),
    "difference": Templates(
        (
            "how many more {ks} than {os} are there?",
            "how many more {ks} than {os} do you see?",
            "tell me how many more {ks} than {os} there are",
            "by how many are there more {ks} than {os}?",
        ),
        (
            "tell me by how many there are more {ks} than {os}",
            "how many more {ks} are there than {os}?",
        ),
        (
            "can you tell me how many more {ks} than {os} there are?",
            "say how many more {ks} than {os} there are",
            "how many more {ks} do you see than {os}?",
            "i want to know how many more {ks} than {os} there are",
            "by how many do you see more {ks} than {os}?",
            "how many more {ks} than {os} are in the picture?",
        ),
    ),
    "more_of": Templates(
        (
            "are there more {ks} or {os}?",
            "which are there more of {ks} or {os}?",
            "what do you see more of {ks} or {os}?",
            "more {ks} or {os}?",
        ),
        ("do you see more {ks} or {os}?", "tell me if there are more {ks} or {os}"),
        (
            "what are there more of {ks} or {os}?",
            "which do you see more of {ks} or {os}?",
            "say if there are more {ks} or {os}",
            "of {ks} and {os} which are there more of?",
            "{ks} or {os} which are there more of?",
            "can you tell me if there are more {ks} or {os}?",
        ),
    ),
    "more_than": Templates(
        (
            "are there more {ks} than {os}?",
            "do you see more {ks} than {os}?",
            "is it true that there are more {ks} than {os}?",
            "yes or no are there more {ks} than {os}?",
        ),
        (
            "tell me if there are more {ks} than {os}",
            "is it true that you see more {ks} than {os}?",
        ),
        (
            "can you tell me if there are more {ks} than {os}?",
            "say if there are more {ks} than {os}",
            "are there more {ks} than {os} yes or no?",
            "i want to know if there are more {ks} than {os}",
            "do you see more {ks} than {os} yes or no?",
        ),
    ),
    "which_farther": Templates(
        (
            "which is {cmp} {a} or {b}?",
            "what is {cmp} {a} or {b}?",
            "{a} or {b} which is {cmp}?",
            "tell me which is {cmp} {a} or {b}",
        ),
        ("{a} or {b} what is {cmp}?", "can you tell me which is {cmp} {a} or {b}?"),
        (
            "{a} or {b} which one is {cmp}?",
            "which one is {cmp} {a} or {b}?",
            "of {a} and {b} which is {cmp}?",
            "say which is {cmp} {a} or {b}",
            "i want to know which is {cmp} {a} or {b}",
            "what one is {cmp} {a} or {b}?",
            "of {a} and {b} what is {cmp}?",
            "tell me what is {cmp} {a} or {b}",
        ),
    ),
    "same": Templates(
        (
            "do {a} and {b} have the same {attr}?",
            "does {a} have the same {attr} as {b}?",
            "is the {attr} of {a} the same as the {attr} of {b}?",
            "do {a} and {b} share the same {attr}?",
        ),
        (
            "tell me if {a} and {b} have the same {attr}",
            "is it true that {a} and {b} have the same {attr}?",
        ),
        (
            "is it true that {a} has the same {attr} as {b}?",
            "can you tell me if {a} has the same {attr} as {b}?",
            "say if {a} and {b} have the same {attr}",
            "tell me if {a} has the same {attr} as {b}",
            "i want to know if {a} and {b} share the same {attr}",
            "are {a} and {b} of the same {attr}?",
            "{a} and {b} do they have the same {attr}?",
            "is {a} of the same {attr} as {b}?",
        ),
    ),
    "exists_region": Templates(
        (
            "is there {ak} {rel} {a}?",
            "do you see {ak} {rel} {a}?",
            "is any {k} {rel} {a}?",
            "tell me if there is {ak} {rel} {a}",
        ),
        ("is there any {k} {rel} {a}?", "do you see any {k} {rel} {a}?"),
        (
            "is there some {k} {rel} {a}?",
            "can you tell me if there is {ak} {rel} {a}?",
            "can you see {ak} {rel} {a}?",
            "{rel} {a} is there {ak}?",
            "say if there is {ak} {rel} {a}",
            "is it true that there is {ak} {rel} {a}?",
            "can you see any {k} {rel} {a}?",
        ),
    ),
}

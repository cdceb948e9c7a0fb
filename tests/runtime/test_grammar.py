"""What a grammar may be before llama.cpp reads it: everything else is refused quickly, with the line."""

from __future__ import annotations

import time

import pytest

from runtime import gbnf
from runtime.gbnf import BadGrammar
from runtime.grammar import MAX_BEGINNINGS, MAX_CHAIN, MAX_SKIPPED, check_grammar
from runtime.params import SamplingParams, UnusableText

JSON = r"""
# a value with its blanks
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        'root ::= "a"',
        'root ::= "a" | # the first\n  "b" | ("c"\n "d")\n# end',
        'root ::= x\r\nx ::= [^\\x00-\\x1F\\U0001F600-\\U0001F64F] .\r\n',
        'root ::= "(" root ")" | [a-z]+ root?',
        'root ::= "a"{3} "b"{2,} "c"{0,2000} "d"{0}',
        'root ::= t ("+" t)*\nt ::= "(" root ")" | [0-9]+',
        'root ::= "" | "a"',
    ],
    ids=["json", "one", "comments", "windows", "recursion", "counts", "expression", "empty text"],
)
def test_good_grammars_pass(text: str) -> None:
    check_grammar(text)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (" \n ", 0, "empty"),
        ('foo ::= "a"', 0, "“root”"),
        ('x ::= "a"\nRoot ::= "a"', 2, "“root”"),
        ('root ::= "a"\nx ::= y', 2, "“y” is not defined"),
        ('root ::= a\n\na ::= root "b" | "c"', 1, "begins with itself"),
        ('root ::= a root "x" | "y"\na ::= b\nb ::= "" | "c"', 1, "begins with itself"),
        ('root ::= ("a"?)*', 1, "begins with itself"),
        ('root ::= "a"\nroot ::= "b"', 2, "second time"),
        ('root ::= "a" root', 1, "never end"),
        ('root ::= "a\n\n', 3, "too early"),
        ("root ::= [abc", 1, "too early"),
        ('root ::= ("a"', 1, "too early"),
        ('root ::= "a")', 1, "“)”"),
        ("root ::= a_b", 1, "“_”"),
        ('root = "a"', 1, "“=”"),
        ("root ::= []", 1, "empty"),
        ("root ::= [z-a]", 1, "backwards"),
        (r'root ::= "\q"', 1, r"“\q”"),
        (r'root ::= "\x4"', 1, "hexadecimal"),
        (r'root ::= "\UFFFFFFFF"', 1, "hexadecimal"),
        ('root ::= * "a"', 1, "nothing before “*”"),
        ('root ::= ""*', 1, "nothing before “*”"),
        ('root ::= "a"{5,3}', 1, "smaller number first"),
        ('root ::= "a"{0,5000}', 1, "2,000"),
        ('root ::= "a"{,3}', 1, "written {3}"),
        ('root ::= "a"{99999999999999999999}', 1, "counts from 0 to 2,000"),
        ("root ::= <think>", 1, "Tokens"),
        ("root ::= !<[12]>", 1, "Tokens"),
        ('root ::=\n "a\0b"', 2, "zero character"),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadGrammar) as caught:
        check_grammar(text)
    assert caught.value.line == line
    assert words in caught.value.info.message


@pytest.mark.parametrize(
    "text",
    [
        "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000,
        "root ::= " + "(" * (gbnf.MAX_NESTING + 1) + '"a"' + ")" * (gbnf.MAX_NESTING + 1),
        "root ::= r0\n" + "".join(f"r{at} ::= r{at + 1}\n" for at in range(5000)) + 'r5000 ::= "a"',
        "root ::= r0\n" + "".join(f"r{at}::=r{at + 1}\n" for at in range(MAX_CHAIN)) + f'r{MAX_CHAIN} ::= "a"',
        "root ::= r0\n" + "".join(f'r{n} ::= r{n + 1} "x" | r{n + 1} "y"\n' for n in range(40)) + 'r40 ::= "a"',
        "root ::= " + " | ".join(["x"] * (MAX_BEGINNINGS + 1)) + '\nx ::= "a"',
        "root ::= " + '"a"? ' * (MAX_SKIPPED + 1),
        'root ::= "x" ' + '"a"? ' * (MAX_SKIPPED + 1) + '"x"',
        'root ::= ((("a"{0,99}){0,99}){0,99}){0,99}',
        "root ::= " + '"a"{0,2000} ' * 11,
    ],
    ids=["60k parentheses", "30k parentheses", "one parenthesis too deep", "5k rules", "one rule too deep",
         "2^40 beginnings", "many beginnings", "all optional", "optional inside", "nested counts", "many counts"],
)  # fmt: skip
def test_what_would_exhaust_native_code_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BadGrammar):
        check_grammar(text)
    assert time.process_time() - started < 5  # it takes hundredths; without the limits, minutes or for ever


def test_the_limits_themselves_are_allowed() -> None:
    check_grammar("root ::= " + "(" * gbnf.MAX_NESTING + '"a"' + ")" * gbnf.MAX_NESTING)
    check_grammar("root ::= r1\n" + "".join(f"r{n}::=r{n + 1}\n" for n in range(1, 99)) + 'r99 ::= "a"')
    check_grammar("root ::= " + '"a"? ' * MAX_SKIPPED)


def test_the_settings_refuse_a_bad_grammar_and_name_the_setting() -> None:
    with pytest.raises(UnusableText) as caught:
        SamplingParams().replace(grammar='root ::= "a')
    assert caught.value.field == "grammar"
    assert caught.value.info.code == "bad_grammar"
    assert "Line 1" in caught.value.info.message


def test_a_grammar_and_a_schema_exclude_each_other() -> None:
    with pytest.raises(UnusableText) as caught:
        SamplingParams().replace(grammar='root ::= "a"', json_schema="{}")
    assert caught.value.info.code == "form_given_twice"

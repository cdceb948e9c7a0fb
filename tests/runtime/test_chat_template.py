"""Chat templates render what transformers renders, byte for byte, and nothing gets out of the sandbox."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from look_alike_templates import CHATML, DEEPSEEK, FAMILIES, LLAMA_3
from runtime.chat_template import (
    SOURCE_LIMIT,
    CannotContinue,
    ChatTemplate,
    ChatTemplateError,
    NoTemplate,
    TemplateBroken,
    TemplateChoiceNeeded,
    TemplateRefused,
    TemplateTooLarge,
    choose_template,
)
from runtime.messages import Message, Role
from template_oracle import NOW, oracle

ROOT = Path(__file__).resolve().parents[2]
REAL_TEMPLATES = sorted(ROOT.glob("build/llama-cpp-python-*/vendor/llama.cpp/models/templates/*.jinja"))

SYSTEM = Message(Role.SYSTEM, "Be brief.")
USER = Message(Role.USER, "Hello")
ASSISTANT = Message(Role.ASSISTANT, "Good day.")
TALK = (USER, ASSISTANT, Message(Role.USER, "And you?"))

CONTENTS = {
    "markup": "if a < b && c > d: <b>\"it's\"</b> &amp; {{ x }} {% y %} {# z #}",
    "trailing spaces": "  two before and three behind   ",
    "trailing newlines": "\n\nlines\n\n",
    "CRLF": "first\r\nsecond\r",
    "empty": "",
    "blank": " \t\n",
    "emoji": "👨‍👩‍👧 é é 你好 \u2028 \x00 \ufeff",
    "reasoning": "<think>\nhm\n</think>\n\nYes.",
}

FEATURES = {
    "variables": "{{ bos_token }}{{ eos_token }}|{{ add_generation_prompt }}|{{ tools is none }}"
    "{{ documents is none }}",
    "undefined": "{{ pad_token }}{{ foo }}{{ foo is defined }}{{ custom_tools is defined }}",
    "missing token": "{{ unk_token is defined }}{{ unk_token }}",
    "item and attribute": "{% for m in messages %}{{ m['role'] }}{{ m.content }}{{ m.get('name', '?') }}{% endfor %}",
    "loop": "{% for m in messages %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}"
    "{{ loop.previtem.role if loop.previtem is defined }}{{ loop.nextitem.role if loop.nextitem is defined }}"
    "{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{% else %}none{% endfor %}",
    "loop filter": "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% endfor %}",
    "break and continue": "{% for m in messages %}{% if m.role == 'assistant' %}{% continue %}{% endif %}"
    "{{ m.content }}{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}",
    "trimmed blocks": "a\n  {% if true %}\n    b\n  {% endif %}\n  {{ 'c' }}\n{# gone #}\n  d  "
    "{%- if true -%}  e  {%- endif -%}  f",
    "last newline": "x\n",
    "namespace": "{% set ns = namespace(n=0, self=1) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{{ ns.n }}{{ ns.self }}",
    "dict": "{{ dict(a=1) }}{{ dict.fromkeys(['x'], 2) }}{{ dict([(1, 2)]).items() | list }}",
    "macro": "{% macro turn(m, mark='#') %}{{ mark }}{{ m.role }}{{ caller() if caller }}{% endmacro %}"
    "{% for m in messages %}{{ turn(m) }}{% call turn(m, mark='!') %}x{% endcall %}{% endfor %}",
    "generation": "{% for m in messages %}{% set z = 'out' %}{% generation %}{% set z = 'in' %}{{ m.content }}"
    "{{ loop.index }}{{ z }}"
    "{% endgeneration %}{{ z }}\n  {% generation %}\n  y\n  {% endgeneration %}\n{% endfor %}",
    "tojson": "{{ messages | tojson }}{{ {'b': '<é>', 'a': [1, none, true]} | tojson(indent=2, sort_keys=true) }}"
    "{{ [1, 2] | tojson(separators=(',', ':')) }}{{ 'é' | tojson(ensure_ascii=true) }}",
    "strftime_now": "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%H:%M:%S') }} {{ strftime_now(format='%A') }}",
    "string methods": "{{ 'a,b'.split(',')[-1] }}{{ ' x '.strip() }}{{ 'xyz'.startswith(('x', 'y')) }}"
    "{{ 'ab'[::-1] }}"
    "{{ 'Ab'.lower() }}{{ '%s-%d' % ('a', 3) }}{{ '{}{:>4}'.format('a', 7) }}{{ 'a' ~ 1 }}{{ 'x' * 3 }}",
    "filters": "{{ messages | map(attribute='role') | join(', ') }}"
    "{{ messages | selectattr('role', 'eq', 'user') | list }}"
    "{{ 'a<b' | e }}{{ 'x' | default('y') }}{{ foo | default('y') }}{{ ' t ' | trim }}{{ [3, 1] | sort }}"
    "{{ 'ab' | replace('a', 'c') }}{{ {'k': 1} | items | list }}{{ 'a b' | title }}{{ 'x\ny' | indent(2) }}"
    "{{ [1, 2] | last }}{{ 1.5 | string }}{{ none | string }}",
    "tests": "{{ 'a' is string }}{{ 1 is number }}{{ {} is mapping }}{{ [] is iterable }}{{ none is none }}"
    "{{ true is boolean }}"
    "{{ 'a' in 'abc' }}{{ 3 is divisibleby 3 }}{{ messages is sequence }}{{ x is undefined }}{{ 1 is sameas 1 }}",
    "slices": "{% set rest = messages[1:] %}{{ rest | length }}{{ messages[-1].content }}"
    "{% set messages = messages[:1] %}"
    "{{ messages | length }}",
    "conditional": "{{ 'a' if messages | length > 2 else 'b' }}{{ 'x' if false }}{{ not true or 1 == 1.0 }}"
    "{{ 7 // 2 }}{{ 2 ** 3 }}",
    "set block": "{% set text %}\n  in {{ 1 + 1 }}\n{% endset %}[{{ text }}]",
    "filter block": "{% filter upper %}abc{% endfilter %}",
    "raw": "{% raw %}{{ kept }}{% endraw %}",
    "tuples": "{% for k, v in [('a', 1), ('b', 2)] %}{{ k }}{{ v }}{% endfor %}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "cycler and joiner": "{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{% set j = joiner('-') %}"
    "{{ j() }}a{{ j() }}b",
    "recursion": "{% macro down(n) %}{{ n }}{% if n %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "switches": "{{ enable_thinking }}{{ options.depth }}"
    "{{ enable_thinking is defined and enable_thinking is false }}",
}


def render(
    source: str, messages: tuple[Message, ...] = TALK, *, bos: str = "<s>", eos: str = "</s>", **options: Any
) -> str:
    return ChatTemplate(source, bos=bos, eos=eos).render(messages, now=NOW, **options)


# --- the same bytes as transformers -----------------------------------------------------------------------------


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_renders_as_in_transformers(feature: str) -> None:
    switches = {"enable_thinking": False, "options": {"depth": 3}}

    rendered = render(FEATURES[feature], variables=switches)

    assert rendered == oracle(FEATURES[feature], TALK, bos_token="<s>", eos_token="</s>", **switches)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_keeps_every_byte_of_a_message(family: str, content: str) -> None:
    for messages in (
        (Message(Role.USER, CONTENTS[content]),),
        (SYSTEM, Message(Role.USER, CONTENTS[content])),
        (Message(Role.SYSTEM, CONTENTS[content]), *TALK),
        (USER, Message(Role.ASSISTANT, CONTENTS[content]), Message(Role.USER, CONTENTS[content])),
    ):
        for prompt in (True, False):
            assert_as_oracle(FAMILIES[family], messages, add_generation_prompt=prompt)


@pytest.mark.parametrize("content", [*CONTENTS, "text"])
@pytest.mark.parametrize("family", FAMILIES)
def test_unfinished_answer_ends_where_transformers_ends_it(family: str, content: str) -> None:
    answer = CONTENTS.get(content, "The capital is ")
    if family == "deepseek" and content == "reasoning":
        answer = "<think>\nhm"  # transformers refuses an answer of which the template drops a part

    assert_as_oracle(FAMILIES[family], (USER, Message(Role.ASSISTANT, answer)), continue_last=True)


@pytest.mark.skipif(not REAL_TEMPLATES, reason="llama.cpp's sources are not unpacked under build/")
@pytest.mark.parametrize("path", REAL_TEMPLATES, ids=lambda path: path.stem)
def test_published_template_renders_as_in_transformers(path: Path) -> None:
    source = path.read_text(encoding="utf-8")

    for messages in (
        (USER,),
        TALK,
        (SYSTEM, *TALK),
        *((SYSTEM, USER, Message(Role.ASSISTANT, text), Message(Role.USER, text)) for text in CONTENTS.values()),
    ):
        for prompt in (True, False):
            assert_as_oracle(source, messages, add_generation_prompt=prompt)
    assert_as_oracle(source, (USER, Message(Role.ASSISTANT, "The capital is ")), continue_last=True)


@lru_cache(maxsize=4)
def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos="<s>", eos="</s>")


def assert_as_oracle(source: str, messages: tuple[Message, ...], **options: Any) -> None:
    """Both render the same text, or both refuse."""
    template = compiled(source)
    try:
        parts = template.wants_parts
        expected = oracle(source, messages, in_parts=parts, bos_token="<s>", eos_token="</s>", **options)
    except Exception:  # noqa: BLE001 - the oracle raises what it likes
        with pytest.raises(ChatTemplateError):
            template.render(messages, now=NOW, **options)
    else:
        assert template.render(messages, now=NOW, **options) == expected


def test_token_that_the_model_lacks_is_undefined_but_can_be_added() -> None:
    source = "{{ bos_token is defined }}{{ bos_token | default('none') }}[{{ bos_token + 'a' }}{{ 'b' + eos_token }}]"

    assert render(source, bos="", eos="") == "Falsenone[ab]"
    assert render(source, bos="<s>", eos="</s>") == "True<s>[<s>ab</s>]"


def test_switch_is_passed_to_the_template() -> None:
    assert render(DEEPSEEK, variables={"enable_thinking": False}).endswith("<think>\n\n</think>")
    assert not render(DEEPSEEK, variables={"enable_thinking": True}).endswith("</think>")


def test_date_is_the_one_given() -> None:
    assert "Today: 03 Feb 2031\n" in render(LLAMA_3)


def test_template_that_reads_parts_gets_parts() -> None:
    part = "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }};{% endif %}{% endfor %}"
    source = "{% for m in messages %}" + part + "{% endfor %}"

    assert render(source) == "Hello;Good day.;And you?;"


def test_template_that_takes_both_gets_a_string() -> None:
    source = "{% for m in messages %}{{ m.content if m.content is string else m.content[0].text ~ '!' }}{% endfor %}"

    assert render(source) == "HelloGood day.And you?"


def test_empty_conversation_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        render(CHATML, ())


def test_answer_that_the_template_leaves_out_cannot_be_continued() -> None:
    source = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"

    with pytest.raises(CannotContinue):
        render(source, (USER, ASSISTANT), continue_last=True)


# --- errors that can be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\nb\n{% if %}x{% endif %}", 3),
        ("a\n{% for m in messages %}", 2),
        ("a\n\n\n{{ foo.bar }}", 4),
        ("{% macro f() %}\n{{ 1 / 0 }}\n{% endmacro %}\n{{ f() }}", 2),
        ("\n{{ messages + 1 }}", 2),
        ("\n{% include 'other' %}", 2),
        ("{{ messages | no_such_filter }}", 1),
        ("{% for m in messages %}\n{{ m.content.nothing() }}{% endfor %}", 2),
    ],
)
def test_broken_template_is_reported_with_its_line(source: str, line: int) -> None:
    with pytest.raises(TemplateBroken) as caught:
        render(source)

    assert caught.value.line == line
    assert f"Line {line}:" in caught.value.info.message
    assert "raw completion" in caught.value.info.hint


def test_refusal_is_told_in_the_templates_words() -> None:
    with pytest.raises(TemplateRefused) as caught:
        render("{{ raise_exception('Only\nuser\u202e turns ' ~ 'x' * 5000) }}")

    assert caught.value.info.message.startswith("It says: “Only user  turns xxx")
    assert len(caught.value.info.message) < 600


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[", "]"), ("{% if 1 %}", "{% endif %}")])
def test_template_nested_beyond_reason_is_broken(opening: str, closing: str) -> None:
    with pytest.raises(TemplateBroken, match="nested too deeply"):
        render("{{" * (opening in "([") + opening * 3000 + "1" + closing * 3000 + "}}" * (closing in ")]"))


def test_macro_that_calls_itself_without_end_is_broken() -> None:
    with pytest.raises(TemplateBroken, match="calls itself without end"):
        render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


def test_template_of_more_than_a_million_characters_is_too_large() -> None:
    assert render("x" * SOURCE_LIMIT).startswith("xx")
    with pytest.raises(TemplateTooLarge):
        render("x" * (SOURCE_LIMIT + 1))


def test_output_without_measure_is_too_large_but_a_long_conversation_is_not() -> None:
    with pytest.raises(TemplateTooLarge):
        render("{% for i in range(99999) %}{{ 'A' * 1000 }}{% endfor %}")
    pasted = "x" * 9_000_000
    assert render("{{ messages[0].content }}", (Message(Role.USER, pasted),)) == pasted


# --- nothing gets out -------------------------------------------------------------------------------------------

ATTACKS = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__.__base__ }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ ('' | attr('__class__')).__mro__ }}",
    "{{ ['']|map(attribute='__class__')|list|first|attr('mro') }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ '{0.__class__.__mro__}'.format_map({'0': ''}) }}",
    "{{ ('{0.__class__.__mro__}' | attr('format'))('') }}",
    "{% set f = '{0.__class__.__mro__}'.format %}{{ f('') }}",
    "{{ lipsum.__globals__['os'].system('touch MARKER') }}",
    "{{ (lipsum | attr('__globals__'))['os'].system('touch MARKER') }}",
    "{{ cycler.__init__.__globals__.os.system('touch MARKER') }}",
    "{{ joiner.__init__.__globals__.os.system('touch MARKER') }}",
    "{{ namespace.__init__.__globals__.os.system('touch MARKER') }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__self__.__class__ }}",
    "{{ dict.__call__.__globals__ }}",
    "{{ dict.mro() }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ loop.__class__ }}",
    "{% for m in messages %}{{ loop._iterable.__class__.__mro__ }}{% endfor %}",
    "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}",
    "{% macro f() %}{% endmacro %}{{ f.__class__.__init__.__globals__ }}",
    "{{ dict.update(messages[0], {'content': 'x'}) }}",
    "{{ dict.pop(messages[0], 'content') }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '/etc/passwd' %}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(content='x') }}",
    "{{ (messages | tojson(separators=({}.__class__, ''))) }}",
    "{% if tools %}{% else %}{{ ''.__class__.__mro__ }}{% endif %}",
]


@pytest.mark.parametrize("source", ATTACKS)
def test_hostile_template_gets_nowhere(source: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    try:
        learned = render(source.replace("MARKER", str(marker)))
    except TemplateBroken:
        learned = ""

    assert learned == ""
    assert not marker.exists()


@pytest.mark.parametrize("source", ["namespace(__class__=1)", "namespace(_x=1)", "namespace() %}{% set ns._x = 1"])
def test_namespace_holds_no_private_names(source: str) -> None:
    with pytest.raises(TemplateBroken, match="cannot hold"):
        render("{% set ns = " + source + " %}")


# --- which template ---------------------------------------------------------------------------------------------


def test_default_template_is_chosen_unless_another_is_wanted() -> None:
    named = {"tool_use": "T", "default": "D"}

    assert choose_template(named) == ("default", "D")
    assert choose_template(named, "tool_use") == ("tool_use", "T")


def test_only_template_is_chosen_whatever_its_name() -> None:
    assert choose_template({"rag": "R"}) == ("rag", "R")


def test_several_templates_without_a_default_ask() -> None:
    with pytest.raises(TemplateChoiceNeeded, match="rag, tool_use") as caught:
        choose_template({"rag": "R", "tool_use": "T"})

    assert caught.value.names == ("rag", "tool_use")


def test_missing_template_says_so() -> None:
    with pytest.raises(NoTemplate, match=r"This model has no chat template\."):
        choose_template({})
    with pytest.raises(NoTemplate, match=r"named “\.\./evil”"):
        choose_template({"default": "D"}, "../evil")

"""Texts that tokenizers trip over, a few hundred: every export is held against them. Data and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

_PLAIN = (
    "Hello world", " Hello world", "Hello  world", "hello", "HELLO", "HeLLo", "a", " a", "  a", "a ", "a  ", "ab",
    "I'm", "I'M", "you're", "YOU'RE", "he'd we'll they've it's", "HE'D WE'LL THEY'VE IT'S", "don't can't won't",
    "o'clock",
    "'s", "' s", "''", "'tis", "rock'n'roll", "The quick brown fox jumps over the lazy dog.", "e.g. i.e. etc.",
    "Mr. Smith's 3rd car cost $1,234.56 (incl. 19% tax)!", "one,two;three:four", "well-known state-of-the-art",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case", "http://example.org/a/b?c=d&e=f#g", "me@example.org",
    "C:\\Users\\me\\file.txt", "/usr/local/bin", "#hashtag @mention", "50% of 7/8", "1st 2nd 3rd", "A4 B12 x86_64",
)  # fmt: skip
_NUMBERS = (
    "0", "1", "12", "123", "1234", "12345", "123456", "1234567", "12345678901234567890", " 1", " 12", " 123", "1 2 3",
    "3.14159", "1,000,000", "1e-5", "0x1F", "007", "2024-02-29T23:59:60Z", "+49 30 123456", "½ ¼ ²³ ₁₂", "١٢٣", "१२३",
    "Ⅷ", "一二三", "1a2b3c", "abc123def456", "v1.2.3-rc.4+build.5",
)  # fmt: skip
_WHITESPACE = (
    "", " ", "  ", "   ", "    ", "     ", "\t", "\t\t", " \t", "\t ", "\n", "\n\n", "\n\n\n", " \n", "\n ", "\r\n",
    "\r\n\r\n", "\r", "a\nb", "a\n\nb", "a \n b", "a\n  b", "a\tb", "a\t\tb", "  a  b  ", "\n\na", "a\n\n", "a\r\nb",
    "\u00a0", "a\u00a0b", "\u3000", "\u2003a", "a\u2028b", "\u200b", "a\u200bb", "\v", "\f", "\x85", " \u00a0 ",
    "a" + " " * 17 + "b", "\n" * 9, "\t" * 7 + "x", "x" + " " * 33, ".\n", ".\n\n", "!\n\n\n", " .\n", ")\n\n}",
)  # fmt: skip
_PUNCTUATION = (
    "!", "!!", "!!!", "...", "…", "?!", ".,;:", "()", "[]{}", "<>", "<|", "|>", "<s", "</s", "&amp;", "--", "---", "—",
    "``", "```", "'''", '"""', "“quoted”", "‘x’", "«x»", "a.b", "a. b", "a .b", "(a)", "( a )", "a/b", "a\\b", "~", "^",
    "`code`", "**bold** _it_", "===", "!==", "=>", "->", "::", "&&", "||", "++i", "i--", "$x", "@x", "#x", "%s", "x*y",
    "。", "，", "、", "？！", "「」", "【】", "·", "•", "†", "©®™", "€£¥₿", "°", "±×÷", "≤≥≠≈∞", "→←↑↓⇒",
)  # fmt: skip
_CODE = (
    "def f(x):\n    return x + 1\n", "\tif (a && b) {\n\t\tc();\n\t}\n", "for i in range(10): print(i)",
    "#include <stdio.h>\nint main(void) { return 0; }\n", "SELECT * FROM t WHERE a = 'b';", "<div class=\"a\">b</div>",
    "{\"key\": [1, 2.5, null, true], \"ü\": \"\\u00fc\"}", "let x = a?.b ?? c;", "x = [i**2 for i in xs if i % 2]",
    "std::vector<int> v{1,2,3};", "fn main() { println!(\"{}\", x); }", "rm -rf ./build && make -j8 2>&1 | tee log",
    "a := b[1:2]", "\\begin{equation} e^{i\\pi} + 1 = 0 \\end{equation}", "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "- [ ] task\n- [x] done\n", "    indented\n        more\n", "/* comment */ // line", "\"\"\"doc\"\"\"",
)  # fmt: skip
_WRITING = (
    "Grüße aus Köln, Straße Nr. 5", "Café, naïve, œuvre, Ærø, Łódź", "Ça va? Où? L'été à l'île", "¿Qué? ¡Sí! Señor",
    "Привет, мир! Ёлка", "ПРИВЕТ", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "你好，世界", "今天天气很好，我们去公园吧。", "我是一个AI助手123号", "こんにちは世界", "カタカナとひらがな", "ｶﾀｶﾅ",
    "안녕하세요 세계", "ỡ ế ậ Việt Nam", "İstanbul ıI", "ß ẞ ﬁ ﬂ", "Ａｂｃ１２３", "ꙮ", "ᚠᛇᚻ", "𐍈", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ལྷ་ས",
    "ka\u0301 e\u0301 n\u0303", "é vs e\u0301", "A\u030a vs Å", "क्षि", "한글 한글", "a\u0300\u0301\u0302b",
    "ｆｕｌｌ　ｗｉｄｔｈ",
)  # fmt: skip
_EMOJI = (
    "😀", "😀😀", " 😀", "a😀b", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☺", "1️⃣",
    "🤖 robot 🤖", "🦙.cpp", "🫠", "👨‍💻 codes",
)  # fmt: skip
_ODD = (
    "\x00", "a\x00b", "\x01\x02", "\x1b[31mred\x1b[0m", "\x7f", "\ufeff", "\ufeffa", "\ufffd", "\ufffe", "\U0010ffff",
    "\u202eabc\u202c", "a\u00adb", "\ue000", "Ġ", "▁", "▁a", "a▁b", "##ing", "Ċ", "ĉ", "<0x0A>", "[UNK]", "<unk>",
    "a" * 100, "ab" * 60, "!" * 50, "é" * 40, "字" * 40, "0" * 30, "A" * 33 + "a" * 33,
    "Donaudampfschifffahrtsgesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis", "antidisestablishmentarianism's", "xyzzyxyzzyxyzzy", "qwrtpsdfg",
)  # fmt: skip
_GLUE = ("", " ", "  ", "\n", ", ", "-", "'")
_PIECES = ("word", "Word", "WORD", "12", "ünï", "中文", "!?")


def _combinations() -> Iterator[str]:
    for first, glue, second in product(_PIECES, _GLUE, _PIECES):
        if (len(first) + len(glue) + len(second)) % 2 == 0:
            yield first + glue + second


HARD_TEXTS: tuple[str, ...] = (
    *_PLAIN, *_NUMBERS, *_WHITESPACE, *_PUNCTUATION, *_CODE, *_WRITING, *_EMOJI, *_ODD, *_combinations(),
)  # fmt: skip

"""Results are remembered as long as there is room for them."""

from __future__ import annotations

from runtime.memo import Memo


def test_a_result_is_made_once() -> None:
    memo: Memo[int] = Memo(100)
    made: list[str] = []

    def make() -> int:
        made.append("made")
        return len(made)

    assert [memo.get("key", make, size=10) for _ in range(3)] == [1, 1, 1]


def test_the_oldest_goes_when_there_is_no_more_room() -> None:
    memo: Memo[str] = Memo(100)
    for name in "abcde":
        memo.get(name, lambda name=name: name, size=20)  # type: ignore[misc]
    memo.get("a", lambda: "made anew", size=20)  # asked for again, so b is the oldest now
    memo.get("f", lambda: "f", size=20)
    assert memo.get("a", lambda: "made anew", size=20) == "a"
    assert memo.get("b", lambda: "made anew", size=20) == "made anew"


def test_what_takes_most_of_the_room_is_not_kept() -> None:
    memo: Memo[str] = Memo(100)
    memo.get("small", lambda: "small", size=20)
    memo.get("paste", lambda: "first", size=90)
    assert memo.get("paste", lambda: "second", size=90) == "second"
    assert memo.get("small", lambda: "made anew", size=20) == "small"

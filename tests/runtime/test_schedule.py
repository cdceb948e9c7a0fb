"""A schedule tells how tokens were evaluated, compactly, and forgets what no longer shows."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.schedule import EvaluationLog, Operation, Schedule, Step


def test_equal_pieces_in_a_row_become_one_step() -> None:
    log = EvaluationLog()
    log.evaluate([1, 2, 3])
    for token in (4, 5, 6):
        log.evaluate([token])
    schedule = log.schedule()
    assert schedule == Schedule((1, 2, 3, 4, 5, 6), (Step("read", 3, 1), Step("read", 1, 3)))
    assert [operation.ids for operation in schedule.operations()] == [(1, 2, 3), (4,), (5,), (6,)]
    assert schedule.held() == [1, 2, 3, 4, 5, 6]


def test_what_was_cut_off_at_a_border_is_forgotten() -> None:
    log = EvaluationLog()
    log.evaluate([1, 2])
    log.evaluate([3, 4])
    log.cut(2)
    log.evaluate([5])
    assert log.schedule() == Schedule((1, 2, 5), (Step("read", 2), Step("read", 1)))


def test_a_cut_inside_a_piece_is_remembered_until_the_piece_is_gone() -> None:
    log = EvaluationLog()
    log.evaluate([1, 2])
    log.evaluate([3, 4, 5], "draft")
    log.cut(3)
    assert log.schedule().steps == (Step("read", 2), Step("draft", 3), Step("cut", 3))
    assert log.schedule().held() == [1, 2, 3]
    log.cut(2)
    assert log.schedule() == Schedule((1, 2), (Step("read", 2),))


def test_a_cache_that_lays_out_otherwise_after_a_cut_remembers_every_cut() -> None:
    log = EvaluationLog(forgets_cuts=False)
    log.evaluate([1, 2])
    log.evaluate([3, 4])
    log.cut(2)
    assert log.schedule().steps == (Step("read", 2, 2), Step("cut", 2))
    assert log.evaluated == 4


def test_a_shift_is_remembered_until_the_cache_is_cut_back_before_it() -> None:
    log = EvaluationLog()
    for at in range(3):
        log.evaluate([at, at])
    log.shift(keep=2, taken=2)
    log.evaluate([9])
    assert log.schedule().held() == [0, 0, 2, 2, 9]
    log.cut(2)
    assert log.schedule() == Schedule((0, 0), (Step("read", 2),))


_actions = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 4)), st.tuples(st.just("draft"), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(0, 30)), st.tuples(st.just("shift"), st.integers(0, 30)),
    ),
    max_size=12,
)  # fmt: skip


@given(_actions, st.booleans())
def test_a_schedule_always_leads_to_what_the_cache_holds(actions: list[tuple[str, int]], forgets: bool) -> None:
    log, held, token = EvaluationLog(forgets_cuts=forgets), list[int](), 0
    for kind, number in actions:
        if kind in ("read", "draft"):
            piece = list(range(token, token := token + number))
            log.evaluate(piece, kind)  # type: ignore[arg-type]
            held += piece
        elif number < len(held):
            taken = (len(held) - number) // 2
            if kind == "cut":
                log.cut(number)
                del held[number:]
            elif taken:
                log.shift(number, taken)
                del held[number : number + taken]
    schedule = log.schedule()
    assert schedule.held() == held
    assert log.length == len(held)
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule
    repeated = EvaluationLog(forgets_cuts=forgets)
    repeated.repeat(schedule)
    assert (repeated.schedule(), repeated.starts) == (schedule, log.starts)
    for length in range(len(held)):
        assert log.before(length).schedule().held() == held[:length]


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule((1, 2), (Step("read", 3),)),
        Schedule((1, 2), (Step("read", 2), Step("read", 1))),
        Schedule((1, 2), (Step("read", 1, 10**15),)),
        Schedule((), (Step("read", 0, 10**15),)),
        Schedule((1, 2), (Step("read", -2), Step("read", 4))),
        Schedule((1, 2), (Step("read", 2), Step("cut", 3))),
        Schedule((1, 2), (Step("read", 2), Step("cut", -1))),
        Schedule((1, 2), (Step("read", 2), Step("shift", 1, 2))),
        Schedule((1, 2), (Step("read", 2), Step("shift", 1, -1))),
    ],
)
def test_steps_that_do_not_add_up_are_found(schedule: Schedule) -> None:
    with pytest.raises(ValueError, match="token"):
        schedule.held()


def test_an_operation_says_what_it_leaves() -> None:
    assert Operation("read", (1, 2)).length_after(3) == 5
    assert Operation("cut", keep=1).length_after(3) == 1
    assert Operation("shift", keep=1, taken=2).length_after(3) == 1

"""Letters of 5 × 7 dots, for the labels of pictures. Knows no picture.

A letter is seven rows from top to bottom, each of five dots in the low bits of a number, the leftmost the highest.
They are written down as one digit of base 32 a row.
"""

from __future__ import annotations

_DRAWN = """
A ehhvhhh  B uhhuhhu  C ehggghe  D uhhhhhu  E vgguggv  F vgguggg  G ehgnhhe  H hhhvhhh  I e44444e  J 72222ic
K hikokih  L ggggggv  M hrllhhh  N hhpljhh  O ehhhhhe  P uhhuggg  Q ehhhlid  R uhhukih  S fgge11u  T v444444
U hhhhhhe  V hhhhha4  W hhhllla  X hha4ahh  Y hha4444  Z v1248gv
a 00e1fhf  b ggmphhu  c 00egghe  d 11djhhf  e 00ehvge  f 698s888  g 0fhhf1e  h ggmphhh  i 40c444e  j 20622ic
k ggikoki  l c44444e  m 00qllhh  n 00mphhh  o 00ehhhe  p 00uhugg  q 00djf11  r 00mpggg  s 00fge1u  t 88s8896
u 00hhhjd  v 00hhha4  w 00hhlla  x 00ha4ah  y 00hhf1e  z 00v248v
0 ehjlphe  1 4c4444e  2 eh1248v  3 v2421he  4 26aiv22  5 vgu11he  6 68guhhe  7 v124888  8 ehhehhe  9 ehhf12c
. 00000cc  , 0000c48  : 0cc0cc0  ; 0cc0c48  ! 4444004  ? eh12404  ' 4480000  " aaa0000  - 000v000  _ 000000v
+ 044v440  = 00v0v00  * 04lel40  / 01248g0  \\ 0g84210  | 4444444  ( 2488842  ) 8422248  [ e88888e  ] e22222e
{ 2448442  } 8442448  < 248g842  > 8421248  @ eh1dlle  # aavavaa  $ 4fke5u4  % op248j3  ^ 4ah0000  & cik8lid
~ 008l200  ` 8420000  · 0004000  → 042v240  ↵ 115dvc4  … 000000l  □ vhhhhhv
"""


def _read() -> dict[str, tuple[int, ...]]:
    words = _DRAWN.split()
    found = zip(words[::2], words[1::2], strict=True)
    return {" ": (0,) * 7} | {letter: tuple(int(row, 32) for row in rows) for letter, rows in found}


LETTERS: dict[str, tuple[int, ...]] = _read()
BOX = LETTERS["□"]

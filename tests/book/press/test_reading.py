"""How long a page takes: what is counted, and that proofs and code cost time."""

import nbformat
import pytest

from book.press import reading
from book.press.reading import Amount, Minutes

TEXT = """# Two words

five more **words** are here $x + y$ {cite}`abc2020`{abbr}` (hidden 1 to 2)`

% rows: A.thm6

$$
a = b
$$

````{prf:proof}
Obvious in $n$ steps.
````

```{exercise} A task · easy
Not counted, $z$.
```

```{solution-start} it
```
nor is this
```{solution-end}
```

```{code-cell}
not = read
```
"""


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(TEXT), *cells])


def code(source, data, *tags):
    output = nbformat.v4.new_output("display_data", data=data)
    return nbformat.v4.new_code_cell(source, outputs=[output], metadata={"tags": list(tags)})


def test_what_a_reader_meets_is_counted():
    folded = "<details><summary>one line</summary><p>and what it hides</p></details><td>0.25</td>"
    cells = [code("a\n\nb", {"text/html": folded}), code("c", {"image/png": "="}, "hide-input")]
    assert reading.amount(notebook(*cells)) == Amount(
        words=2 + 5 + 2 + 1, proof_words=3, symbols=2, formulas=1, pictures=1, lines=2
    )
    assert reading.amount(notebook(), "three words more").words == 2 + 5 + 3


def test_every_kind_of_thing_takes_time():
    nothing = Amount(3000, 0, 0, 0, 0, 0)
    assert reading.minutes(nothing) == Minutes(20, 20)
    for kind in ("symbols", "formulas", "pictures"):
        assert reading.minutes(nothing._replace(**{kind: 200})).story > 20
    for kind in ("proof_words", "lines"):
        more = reading.minutes(nothing._replace(**{kind: 300}))
        assert more.story == 20
        assert more.everything > 20


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (5, "5 minutes"),
        (60, "an hour"),
        (80, "an hour and 20 minutes"),
        (180, "3 hours"),
        (125, "2 hours and 5 minutes"),
    ],
)
def test_minutes_in_words(minutes, words):
    assert reading.in_words(minutes) == words

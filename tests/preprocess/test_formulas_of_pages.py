"""Formulas of pages stay in their sentences, as TeX where the page states it."""

from __future__ import annotations

import pytest

from mmlake.preprocess.markup import main_text

PROSE = "".join(
    f"<p>The council met for the {number} time to discuss the repair of the old bridge and of the mill.</p>"
    for number in ("first", "second", "third", "fourth", "fifth")
)
STATED = (
    "<math alttext='{{\\displaystyle y^2}}'><semantics><msup><mi>y</mi><mn>2</mn></msup>"
    "<annotation encoding='application/x-tex'>{tex}</annotation></semantics></math>"
)
OF_WIKIPEDIA = (
    "<span class='mwe-math-element'><span class='mwe-math-mathml-inline' style='display: none;'>{math}</span>"
    "<img src='y.svg' class='mwe-math-fallback-image-inline' alt='y^2'></span>"
)


def sentence_with(formula: str) -> str:
    page = f"<html><body><article>{PROSE}<p>Then {formula} is the load.</p>{PROSE}</article></body></html>"
    return next(line for line in main_text(page).split("\n") if "load" in line)


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("<math><mi>a</mi> <mo>+</mo> <mn>2</mn></math>", "a+2"),
        ("<math alttext='a^2'><msup><mi>a</mi><mn>2</mn></msup></math>", r"\(a^2\)"),
        (STATED.format(tex="y_1"), r"\(y_1\)"),
        (OF_WIKIPEDIA.format(math=STATED.format(tex=r"{\displaystyle y^2}")), r"\(y^2\)"),
        ("<span>of <math><mi>a</mi></math> and <math><mi>b</mi></math></span>", "of a and b"),
    ],
)
def test_a_formula_stands_in_its_sentence(formula, written):
    """Those without TeX and those of Wikipedia were left out, without a word."""
    assert sentence_with(formula) == f"Then {written} is the load."

"""The codes of models that are asked: of servers that do not answer, and of answers that cannot be used."""

from __future__ import annotations

from mmlake.error_codes.entry import ErrorCode

MODEL_CODES = (
    ErrorCode(
        code=3801,
        name="endpoint_unanswered",
        severity="P2",
        what="The model's server gave no answer in all tries: it took too long, was overloaded, or cut the connection.",
        fix="See whether the server is up, then `mmlake retry`; raise `endpoint.timeout_s` for slow models.",
        is_transient=True,
    ),
    ErrorCode(
        code=3802,
        name="answer_malformed",
        severity="P2",
        what="The model's answer cannot be used: it is too large, no JSON, or JSON of another form than was asked for.",
        fix="Choose a model that follows instructions, or raise `endpoint.max_tokens`; `mmlake retry --code 3802` asks "
        "again.",
    ),
    ErrorCode(
        code=3803,
        name="question_refused",
        severity="P2",
        what="The model's server refuses the question itself, such as for its length or its content.",
        fix="Lower `captions.max_frames`, or use a model with a longer context; the log has what the server says.",
    ),
    ErrorCode(
        code=3804,
        name="correction_refused",
        severity="P2",
        what="The model changed lines of a transcript by more than the settings allow; these keep their original text.",
        fix="Compare the lines in `mmlake why`; raise `captions.max_edit_fraction` if such changes are right.",
    ),
    ErrorCode(
        code=3805,
        name="description_refused",
        severity="P2",
        what="The model's description of a clip names times outside of it, out of order or too many, or tags that the "
        "vocabulary does not have.",
        fix="Choose a model that follows instructions; `mmlake retry --code 3805` asks again.",
    ),
    ErrorCode(
        code=3806,
        name="model_failed",
        severity="P2",
        what="A model on this machine could not answer although its question was made.",
        fix="Try again with `mmlake retry`; search the log of the captions step for the item's digest.",
        is_transient=True,
    ),
)

"""Which samples and parts are out, and why: decided of one batch of samples at a time.

P parts of the batch's samples, S its distinct samples by name, C catalog rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import DigestIndex, piece
from mmlake.errors import ContractBroken
from mmlake.recipes import CARRIED_BY, Recipe
from mmlake.versions.caption_masks import CaptionCosines, below
from mmlake.versions.carried import carried_out
from mmlake.versions.grouped_samples import Parts, Samples, first_of

# a finding of sound and film that says nothing of them, but of the transcript next to them
WRONG_TRANSCRIPT = "wrong_transcript"
MISSING, FOREIGN, REPEATED = "part:missing", "part:other_modality", "part:repeated"
NO_LEAD, EXACT, CAPTION_SCORE = "sample:no_lead", "tier:exact", "caption_score"


# apart from its digest, what says that a part of a sample says nothing that another one does not
_SAID = ("role", "fields_json", "start_us", "end_us")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What catalog and recipe say of each digest: worked out once, asked for every batch of samples."""

    recipe: Recipe
    index: DigestIndex
    texts: list[str]  # of causes
    own_C: np.ndarray  # number of the cause that keeps the row out wherever it stands; -1 where none does
    lead_C: np.ndarray  # likewise, where it leads
    said_C: np.ndarray  # likewise, where it does not
    detail_C: np.ndarray  # number of the details that say more of the latter; -1 where none do
    # what says more: of the cause, the survivor, the reason of the verdict, the film or recording that carries the unit
    details: list[pa.Array]
    is_wrong_C: np.ndarray  # whether the medium was found to say something else than its transcript, bool
    weight_C: np.ndarray  # to six digits
    modalities: pa.Array  # of the catalog's rows
    cosines: CaptionCosines

    @classmethod
    def of(cls, catalog: pa.Table, recipe: Recipe, rows: pa.Table, scores: pa.Table | None = None) -> Verdicts:
        """rows: as of `selection.select`; catalog: of them the columns that every recipe reads; scores: of captions.
        Raises ContractBroken where the catalog holds a digest twice."""
        index, texts = DigestIndex(catalog["digest"]), list[str]()
        if index.twice is not None:
            raise ContractBroken(f"catalog rows name {index.twice} twice; run `Catalog.verify_unique`")
        carried_by = piece(rows[CARRIED_BY]) if CARRIED_BY in rows.column_names else None
        leads = piece(recipe.lead_causes(rows))
        own = recipe.causes(catalog)
        tiers = piece(catalog["tier"])
        is_dropped = pc.is_in(tiers, value_set=pa.array(recipe.drop_tiers, pa.string()))
        dropped = pc.if_else(is_dropped, tiers, pa.scalar(None, pa.string()))
        by_tier = pc.binary_join_element_wise("tier", dropped, ":")
        stays_C = pc.is_null(pc.coalesce(piece(own), leads, by_tier)).to_numpy(zero_copy_only=False)
        carried, carriers = carried_out(piece(catalog["digest"]), carried_by, stays_C, recipe.drop_carried)
        own_C = _coded(own, texts)
        lead_C = _coded(pc.coalesce(leads, by_tier, carried), texts)
        said_C = _coded(recipe.contaminated_causes(rows), texts)
        detail_C = np.where(pc.is_valid(leads), -1, np.where(pc.is_valid(by_tier), 1, np.where(lead_C < 0, -1, 3)))
        details = [_details(catalog, own), piece(catalog["survivor"]), piece(catalog["reason"]), carriers]
        is_wrong_C = pc.fill_null(pc.equal(piece(catalog["rule"]), WRONG_TRANSCRIPT), False)
        weight_C = np.round(pc.fill_null(piece(catalog["weight"]), 0.0).to_numpy().astype(float), 6)
        is_wrong_C, modalities = is_wrong_C.to_numpy(zero_copy_only=False), piece(catalog["modality"])
        return cls(
            recipe, index, texts, own_C, lead_C, said_C, detail_C, details, is_wrong_C, weight_C, modalities,
            CaptionCosines.of(scores, index, catalog.num_rows),
        )  # fmt: skip


@dataclass(slots=True)
class Causes:
    """Why parts, or samples, stay out: numbers of texts, so that millions of rows cost four bytes each."""

    texts: list[str]
    code: np.ndarray  # number of the text; -1 where nothing keeps the row out
    # number of the text that says more, in the column that `source` numbers; -1 where there is none
    detail: np.ndarray
    source: np.ndarray
    columns: list[pa.Array]  # of details: of the catalog, and names of samples

    @classmethod
    def of(cls, parts: Parts, at_P: np.ndarray, verdicts: Verdicts) -> Causes:
        """The cause of each part that does not stay by itself."""
        texts = list(verdicts.texts)
        roles = verdicts.recipe.roles
        role_P = parts.role_codes(lambda role: None if role in roles else f"role:{role}", texts)
        texts += [MISSING, FOREIGN]
        there = at_P >= 0
        foreign_P = _foreign(parts, at_P, verdicts.modalities)
        own_P, lead_P, said_P = (
            np.where(there, np.append(codes, -1)[at_P], -1)
            for codes in (verdicts.own_C, verdicts.lead_C, verdicts.said_C)
        )
        place_P = np.where(parts.leads_P, lead_P, said_P)
        of_place_P = np.where(parts.leads_P, np.append(verdicts.detail_C, -1)[at_P], -1)
        chosen = [~there, foreign_P, own_P >= 0, role_P >= 0, place_P >= 0]
        missing, foreign = len(texts) - 2, len(texts) - 1
        code = np.select(chosen, [missing, foreign, own_P, role_P, place_P], -1)
        source = np.select(chosen, [-1, -1, 0, -1, of_place_P], -1)
        detail = np.where(source >= 0, at_P, -1)
        return cls(texts, code.astype(np.int32), detail, source.astype(np.int8), list(verdicts.details))

    @classmethod
    def none(cls, count: int, like: Causes) -> Causes:
        """No cause for any of so many rows; texts and columns are shared."""
        rows = np.full(count, -1)
        return cls(like.texts, rows.astype(np.int32), rows, rows.astype(np.int8), like.columns)

    def set(self, rows: np.ndarray, cause: str, *, detail: np.ndarray | int = -1, source: int = -1) -> None:
        """Give these rows the cause."""
        if cause not in self.texts:
            self.texts.append(cause)
        self.code[rows], self.detail[rows], self.source[rows] = self.texts.index(cause), detail, source

    def copy(self, rows: np.ndarray, other: Causes, theirs: np.ndarray) -> None:
        """Give these rows the causes of other rows."""
        for name in ("code", "detail", "source"):
            getattr(self, name)[rows] = getattr(other, name)[theirs]

    def text(self, rows: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """(cause, detail) of these rows."""
        codes = self.code[rows]
        causes = pa.array(self.texts, pa.string()).take(pa.array(codes, mask=codes < 0))
        details = pa.nulls(len(rows), pa.string())
        for number, column in enumerate(self.columns):
            mine = self.source[rows] == number
            if mine.any():
                values = column.cast(pa.string()).take(pa.array(self.detail[rows][mine]))
                details = pc.replace_with_mask(details, pa.array(mine), values)
        return causes, details


def _details(rows: pa.Table, causes: pa.Array) -> pa.Array:
    """What says more of the cause of each row: of a licence the sources that state it, of others the reason."""
    by_licence = pc.fill_null(pc.starts_with(causes, "licence:"), False)
    reasons = piece(rows["reason"])
    if not pc.any(by_licence, min_count=0).as_py():
        return reasons
    return pc.if_else(by_licence, pc.fill_null(pc.binary_join(piece(rows["sources"]), ", "), ""), reasons)


def _coded(causes: pa.Array | pa.ChunkedArray, texts: list[str]) -> np.ndarray:
    """The number of each cause among the texts, to which they are added; -1 where null."""
    causes = piece(causes)
    encoded = causes.dictionary_encode()
    codes: np.ndarray = pc.fill_null(encoded.indices, -1 - len(texts)).to_numpy(zero_copy_only=False) + len(texts)
    texts += encoded.dictionary.to_pylist()
    return codes.astype(np.int32)


class Outs:
    """Which samples are out, and why."""

    def __init__(self, samples: Samples, verdicts: Verdicts) -> None:
        """What is decided of each sample by itself."""
        self.samples, self.verdicts, self.parts = samples, verdicts, samples.parts()
        self.at_P = _places(verdicts.index, self.parts)
        self.causes_P = Causes.of(self.parts, self.at_P, verdicts)
        self.causes_S = Causes.none(samples.count, self.causes_P)
        self._say_once()
        if verdicts.recipe.judges:
            self._doubt_transcripts()
        if verdicts.recipe.min_caption_score is not None:
            self._doubt_captions(verdicts.recipe.min_caption_score)
        self._without_lead()
        for role in verdicts.recipe.required_roles:
            self._without_role(role)

    @property
    def kept_P(self) -> np.ndarray:
        """Whether nothing keeps the part out, bool."""
        kept: np.ndarray = self.causes_P.code < 0
        return kept

    @property
    def in_S(self) -> np.ndarray:
        """Whether nothing keeps the sample out, bool."""
        stays: np.ndarray = self.causes_S.code < 0
        return stays

    def count(self, chosen_P: np.ndarray) -> np.ndarray:
        """How many of these parts each sample has."""
        return np.bincount(self.parts.owner_P[chosen_P], minlength=self.samples.count)

    def _doubt_transcripts(self) -> None:
        """Give transcripts whose medium was found to say something else that finding as their cause."""
        doubting = self.parts.leads_P & (self.at_P >= 0)
        doubting[doubting] = self.verdicts.is_wrong_C[self.at_P[doubting]]
        if not doubting.any():
            return
        row_S = np.full(self.samples.count, -1)
        row_S[self.parts.owner_P[doubting]] = self.at_P[doubting]
        lead_P = row_S[self.parts.owner_P]
        doubted = np.flatnonzero(self.parts.is_role("transcript") & self.kept_P & (lead_P >= 0))
        self.causes_P.set(doubted, f"rule:{WRONG_TRANSCRIPT}", detail=lead_P[doubted], source=2)

    def _doubt_captions(self, bound: float) -> None:
        """Mask captions whose cosine with each leading part of their sample is below the bound."""
        out, said = below(bound, *self.verdicts.cosines.best(self.parts, self.at_P, self.kept_P))
        columns = self.causes_P.columns
        columns.append(said)
        self.causes_P.set(out, CAPTION_SCORE, detail=np.arange(len(out)), source=len(columns) - 1)

    def _say_once(self) -> None:
        """Captions and transcripts that an earlier part of their sample is already, its fields included: a text next to
        a picture and a record next to both say it twice. Whatever else keeps the text out is said of the first."""
        said = np.flatnonzero((self.at_P >= 0) & ~self.parts.leads_P)
        # one number for sample and digest: they come sorted by samples, so that this is nearly sorted
        text_P = self.parts.owner_P * max(1, len(self.verdicts.weight_C)) + self.at_P
        said = said[_again((text_P[said],), with_first=True)]
        if not len(said):
            return
        codes = (piece(self.parts.take(name, said)).dictionary_encode(null_encoding="encode").indices for name in _SAID)
        keys = (text_P[said], *(one.to_numpy(zero_copy_only=False) for one in codes))
        self.causes_P.set(said[_again(keys, with_first=False)], REPEATED)

    def _without_lead(self) -> None:
        """Samples of which no leading part stays are out, by the cause of the first."""
        kept_P, leads_P = self.kept_P, self.parts.leads_P
        lost_S = self.count(leads_P & kept_P) == 0
        self.causes_S.set(np.flatnonzero(lost_S), NO_LEAD)
        first_S = first_of(self.parts.owner_P, np.flatnonzero(leads_P & ~kept_P), self.samples.count)
        with_lead = np.flatnonzero(lost_S & (first_S >= 0))
        self.causes_S.copy(with_lead, self.causes_P, first_S[with_lead])

    def _without_role(self, role: str) -> None:
        """Samples of which no part of the role stays are out."""
        has_S = self.count(self.kept_P & self.parts.is_role(role))
        self.causes_S.set(np.flatnonzero((has_S == 0) & self.in_S), f"required:{role}")

    def repeat(self, numbers_S: np.ndarray, best: pa.Array) -> None:
        """These samples are out: each has the leading parts of another one, whose name is given."""
        columns = self.causes_S.columns
        columns.append(best)
        self.causes_S.set(numbers_S, EXACT, detail=np.arange(len(best)), source=len(columns) - 1)

    def cut(self, causes: np.ndarray) -> None:
        """Those of the samples that stay, by shard and name, which have a cause are out."""
        rows = self.samples.by_shard(np.flatnonzero(self.in_S))
        for cause in sorted({cause for cause in causes.tolist() if cause is not None}):
            self.causes_S.set(rows[causes == cause], cause)


def _again(keys: Sequence[np.ndarray], *, with_first: bool) -> np.ndarray:
    """The rows of which all keys are those of another row, ascending. with_first: whether the first of them is among
    them; else all but the first are."""
    order = np.lexsort(keys[::-1])  # equal rows stay in their order
    is_next = np.ones(max(0, len(order) - 1), bool)
    for key in keys:
        is_next &= key[order][1:] == key[order][:-1]
    repeats = np.concatenate((np.zeros(min(1, len(order)), bool), is_next))
    if with_first:
        repeats[:-1] |= is_next
    found: np.ndarray = np.sort(order[repeats])
    return found


def _foreign(parts: Parts, at_P: np.ndarray, modalities: pa.Array) -> np.ndarray:
    """Whether the catalog's row for the part's digest is of another modality: bytes that two modalities hold (none at
    all, or of no known type) have one row, whose verdict says nothing of them as the other."""
    rows = np.flatnonzero(at_P >= 0)
    foreign_P = np.zeros(len(at_P), bool)
    same = pc.equal(parts.take("modality", rows), modalities.take(pa.array(at_P[rows])))
    foreign_P[rows] = ~same.to_numpy(zero_copy_only=False)
    return foreign_P


def _places(index: DigestIndex, parts: Parts) -> np.ndarray:
    """The catalog row of each part; -1 where the part has no digest."""
    digests = parts.flat["digest"]
    found = index.find(digests)
    lost = ((found < 0) & np.asarray(pc.is_valid(digests)))[parts.at_P]
    if lost.any():
        first = parts.take("digest", np.flatnonzero(lost)[:1])[0].as_py()
        raise ContractBroken(
            f"samples -> catalog: {int(lost.sum())} parts have a digest that the catalog does not, such as "
            f"{first}; materialize the catalog again"
        )
    places: np.ndarray = found[parts.at_P]
    return places

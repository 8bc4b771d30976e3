"""Unit vectors for items and queries, from a table of encoders that say what they are."""

from __future__ import annotations

from mmlake.embed.agreement import ModelMeasure, model_measures, steers
from mmlake.embed.caption_scores import caption_scores
from mmlake.embed.embedding import UnusableQuery, embed, encode_file_query, encode_text_queries, encode_text_query
from mmlake.embed.encoders import ENCODERS, Encoder, encoder_for
from mmlake.embed.settings import EmbedSettings, ModelSource

__all__ = [
    "ENCODERS",
    "EmbedSettings",
    "Encoder",
    "ModelMeasure",
    "ModelSource",
    "UnusableQuery",
    "caption_scores",
    "embed",
    "encode_file_query",
    "encode_text_queries",
    "encode_text_query",
    "encoder_for",
    "model_measures",
    "steers",
]

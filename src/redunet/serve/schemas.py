"""Requests and answers, checked and documented by Pydantic."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_SAMPLES = 10_000
LONGEST_TEXT = 20_000

Label = int | Annotated[str, Field(max_length=256)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Row = Annotated[list[float], Field(max_length=2**24, fail_fast=True)]


class Strict(BaseModel):
    """Nothing but what is named, and numbers that are numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: Any) -> Any:
        """Refuse many unknown fields at once: Pydantic would complain of each of millions."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            raise ValueError(
                f"expected only {', '.join(cls.model_fields)}, got {len(given):,} fields"
            )
        return given


class Samples(Strict):
    """One of four: a sample, samples, a text, texts."""

    sample: Row | None = Field(
        default=None, description="One vector, or an image's values row by row."
    )
    samples: list[Row] | None = Field(
        default=None,
        max_length=MOST_SAMPLES,
        min_length=1,
        fail_fast=True,
        description="Many of them.",
    )
    text: Text | None = Field(default=None, description="Where the model has an encoder of texts.")
    texts: list[Text] | None = Field(
        default=None,
        max_length=MOST_SAMPLES,
        min_length=1,
        fail_fast=True,
        description="Many of them.",
    )


class Question(Samples):
    """Samples to label."""

    top: int = Field(
        default=1, ge=1, le=1000, description="How many classes to give, most likely first."
    )
    novelty: bool = Field(
        default=False, description="Whether to say how far samples are from all classes."
    )
    reject: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Give no label to samples as novel as this share of known.",
    )


class Labelled(Samples):
    """Samples and their labels, to learn or to unlearn."""

    label: Label | None = Field(default=None, description="Of all samples.")
    labels: list[Label] | None = Field(
        default=None, max_length=MOST_SAMPLES, fail_fast=True, description="One each."
    )


class Classes(Strict):
    """Classes to forget."""

    classes: list[Label] = Field(
        min_length=1,
        max_length=MOST_SAMPLES,
        fail_fast=True,
        description="Names or numbers of classes.",
    )


class Answers(BaseModel):
    """All answers of a request, by one version of the model."""

    version: int
    sha256: str = Field(description="Of the file of the model that answered.")
    threshold: float | None = Field(description="The novelty above which samples are rejected.")
    answers: list[dict[str, Any]] = Field(
        description="Of each sample its label (null where it was rejected), the top labels with "
        "their probabilities, and its novelty."
    )


class Changed(BaseModel):
    """A change that is in the file."""

    what: str
    version: int
    before: str = Field(description="sha256 of the file before.")
    sha256: str = Field(description="sha256 of the file now.")
    classes: list[dict[str, Any]] | None = Field(
        default=None, description="Of each class that changed its samples and their change."
    )
    samples: int | None = None
    answering: bool = Field(description="Whether the new network answers already.")
    repeated: bool = Field(description="Whether the key came before; the change counted once.")
    notes: list[str] = []
    receipt: dict[str, Any] | None = None


class Problem(BaseModel):
    """One line: what was expected, what came, what to do."""

    error: str

"""Second moments of all classes as the construction needs them: as matrices or as factors.

A class whose second moment has a rank well below d is stored as a factor, read from the
columns that hold it, and directions that no sample has are left out; both are exact, and
chosen here from the moments alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory, on_device
from redunet.core.eigenvectors import gram_eigenvectors, top_eigenvectors
from redunet.core.low_rank import Stack, stacked
from redunet.core.moments import ClassMoments, Label
from redunet.core.reduced_space import ReducedSpace

LARGEST_ON_GPU = 2**30
"""Bytes of matrices, or of factors, that stay on a GPU while it has others to work with; more wait
in the memory of the CPU."""

FACTORED_UP_TO = 0.4
"""A class of a rank up to this share of d is built and applied faster as a factor. By operations
alone it would be 0.69 in layers and 0.5 in answers; chosen by hand below both."""

_SUMMED = 2**26
"""Numbers of factors that are brought into float64 at a time."""


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Second moments of all classes, as matrices or as factors."""

    dense: tuple[int, ...]  # Indices, in the order of all labels, of the classes that have a matrix
    Sigma: Tensor  # (g, s, s): with s the dimension of the reduced space, or d where there is none
    stacks: tuple[Stack, ...] = ()  # The other classes
    space: ReducedSpace | None = None  # What the moments lie within
    # Memory for matrices of classes, also for those that are made of these
    allocate: Allocate = in_memory

    @classmethod
    def of_matrices(cls, Sigma: Tensor, allocate: Allocate = in_memory) -> SecondMoments:
        """Those given as matrices, (k, d, d)."""
        return cls(tuple(range(len(Sigma))), Sigma, allocate=allocate)

    @classmethod
    def of(cls, moments: ClassMoments, dtype: torch.dtype, device: str) -> SecondMoments:
        """Those of class moments, in factors and within a reduced space where that is faster."""
        return LazySecondMoments.of(moments, dtype, device).kept()

    def on(self, device: torch.device) -> SecondMoments:
        """These with matrices and factors on a device."""
        if {self.Sigma.device, *(stack.B.device for stack in self.stacks)} == {device}:
            return self
        stacks = tuple(Stack(stack.classes, stack.B.to(device)) for stack in self.stacks)
        return replace(self, Sigma=self.Sigma.to(device), stacks=stacks)

    @property
    def dtype(self) -> torch.dtype:
        """Of matrices and factors."""
        return self.Sigma.dtype

    @property
    def device(self) -> torch.device:
        """Of matrices."""
        return self.Sigma.device

    @property
    def n_classes(self) -> int:
        """k, of both kinds."""
        return len(self.dense) + sum(len(stack.classes) for stack in self.stacks)

    @property
    def n_features(self) -> int:
        """The dimension d of the feature vectors."""
        return self.Sigma.shape[-1] if self.space is None else self.space.d

    @property
    def layer_numbers(self) -> int:
        """The numbers that a layer made of these moments consists of."""
        return _layer_numbers(self.Sigma.shape[-1], len(self.dense), self.stacks)

    def inside(self, Z: Tensor) -> Tensor:
        """Vectors, (n, d), within the reduced space: (n, s)."""
        return Z if self.space is None else self.space.rows(Z)[0]

    def full(self) -> Tensor:
        """Second moments of the classes as matrices: a copy, (k, d, d)."""
        shape = (self.n_classes, *self.Sigma.shape[1:])
        out = on_device(self.allocate, shape, self.dtype, self.Sigma.device)
        out[list(self.dense)] = self.Sigma
        for stack in self.stacks:
            for some in stack.parts():
                B = some.B.to(out)
                out[list(some.classes)] = B.mT @ B
        return out if self.space is None else self.space.lift(out)

    def matrix(self, j: int) -> Tensor:
        """The second moment of one class: (d, d)."""
        if j in self.dense:
            Sigma_j = self.Sigma[self.dense.index(j)]
        else:
            stack = next(stack for stack in self.stacks if j in stack.classes)
            B = stack.B[stack.classes.index(j)].to(self.Sigma)
            Sigma_j = B.mT @ B
        return Sigma_j if self.space is None else self.space.to_all(Sigma_j)

    @property
    def sum(self) -> Tensor:
        """The second moments of all classes, added up: Tensor of shape (d, d), float64."""
        if "_sum" not in self.__dict__:  # cached_property has a lock: threads could not meet
            total = self._summed()
            self.__dict__["_sum"] = total.to(waiting_place(total.nbytes, total.device))
        waiting: Tensor = self.__dict__["_sum"]
        return waiting.to(self.Sigma.device)

    def _summed(self) -> Tensor:
        total = self.Sigma.sum(dim=0, dtype=torch.float64)
        for stack in self.stacks:
            for some in torch.split(stack.rows, max(1, _SUMMED // total.shape[-1])):
                rows = some.to(total)
                total.addmm_(rows.mT, rows)
        return total if self.space is None else self.space.to_all(total)

    def within(self, P: Tensor) -> Tensor:
        """Pᵀ Σ_j P of each class, (k, q, q), for some directions P, (d, q), float64."""
        inside = P if self.space is None else self.space.to(P.dtype, str(P.device)).factor(P)
        out = P.new_empty(self.n_classes, P.shape[1], P.shape[1])
        for j, Sigma_j in zip(self.dense, self.Sigma, strict=True):
            out[j] = inside.mT @ Sigma_j.to(P.dtype) @ inside
        for stack in self.stacks:
            for some in stack.parts():
                along = some.B.to(P) @ inside
                out[list(some.classes)] = along.mT @ along
        return (out + out.mT) / 2

    def eigenvectors(
        self, n: int, classes: Collection[int] | None = None
    ) -> Iterator[tuple[int, Tensor, Tensor, float]]:
        """Of each class its index, at most n leading eigenvalues and -vectors, and its trace.

        Vectors are columns in all d dimensions, in float64; of a class in factors there are no
        more than its factor has rows. Of all classes, or of some.
        """
        for j, A, of_rows in self.each():
            if classes is not None and j not in classes:
                continue
            trace = float((A.square() if of_rows else A.diagonal()).sum(dtype=torch.float64))
            values, vectors = gram_eigenvectors(A, n) if of_rows else top_eigenvectors(A, n)
            if self.space is not None:
                vectors = self.space.directions(vectors)
            yield j, values, vectors, trace

    def each(self) -> Iterator[tuple[int, Tensor, bool]]:
        """Of each class its index, and Σ_j, or B with Bᵀ B = Σ_j, and whether it is the latter."""
        for j, Sigma_j in zip(self.dense, self.Sigma, strict=True):
            yield j, Sigma_j, False
        for stack in self.stacks:
            for j, B_j in zip(stack.classes, stack.B, strict=True):
                yield j, B_j.to(self.Sigma), True


def waiting_place(n_bytes: int, device: str | torch.device) -> str | torch.device:
    """Where matrices or factors of a given size wait until a device needs them."""
    return "cpu" if n_bytes > LARGEST_ON_GPU else device


def _layer_numbers(s: int, n_dense: int, stacks: Iterable[Stack]) -> int:
    inner = sum(stack.B.numel() + len(stack.rows) * stack.B.shape[1] for stack in stacks)
    return (n_dense + 1) * s * s + inner


@dataclass(frozen=True, eq=False)
class LazySecondMoments:
    """Second moments whose matrices are made of class moments each time, and not kept.

    That takes about as long as a copy, and saves one.
    """

    moments: ClassMoments
    dense: dict[int, Label]  # The classes that have a matrix
    stacks: tuple[Stack, ...]  # The others
    space: ReducedSpace | None  # In the dtype, and in float64
    wide: ReducedSpace | None  # In the dtype, and in float64
    dtype: torch.dtype
    device: str  # Where each matrix is computed

    @classmethod
    def of(cls, moments: ClassMoments, dtype: torch.dtype, device: str) -> LazySecondMoments:
        """Those of class moments, in factors and within a reduced space where that is faster."""
        space = ReducedSpace.of(moments, device)
        size = moments.n_features if space is None else space.size
        factors, dense = {}, {}
        for j, label in enumerate(moments):
            F = moments.factor_of(label, int(FACTORED_UP_TO * size), device)
            if F is None:
                dense[j] = label
            else:
                factors[j] = (F if space is None else space.factor(F)).to(dtype)
        narrow = None if space is None else space.to(dtype, device)
        return cls(moments, dense, stacked(factors), narrow, space, dtype, device)

    @property
    def layer_numbers(self) -> int:
        """See `SecondMoments.layer_numbers`."""
        return _layer_numbers(self._size, len(self.dense), self.stacks)

    @property
    def allocate(self) -> Allocate:
        """See `SecondMoments.allocate`."""
        return self.moments.allocate

    def kept(self) -> SecondMoments:
        """The second moments where they are kept: on the device, or waiting for it."""
        n_bytes = len(self.dense) * self._size**2 * self.dtype.itemsize
        return self.on(torch.device(waiting_place(n_bytes, self.device)))

    def on(self, device: torch.device) -> SecondMoments:
        """The second moments on a device, made now."""
        shape = (len(self.dense), self._size, self._size)
        Sigma = on_device(self.allocate, shape, self.dtype, device)
        for out, label in zip(Sigma, self.dense.values(), strict=True):
            Sigma_j = self.moments.Sigma_of(label, self.device)
            out.copy_(Sigma_j if self.wide is None else self.wide.second_moment(Sigma_j))
        return SecondMoments(tuple(self.dense), Sigma, self.stacks, self.space, self.allocate)

    @property
    def _size(self) -> int:
        return self.moments.n_features if self.space is None else self.space.size
